package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// TestDoctorBetweenPartitions: two partitions have the same node ports, and what the doctor advises
// helps; on a node it says which partition with tenants is not reached.
func TestDoctorBetweenPartitions(t *testing.T) {
	t.Parallel()
	const patience, ports = 3 * time.Minute, "28000-29999"
	home := ownCluster(t, "doc-home", "--disable-agent")
	worker := newAgent(t, "doc-worker", home)
	tp2 := beginRoles(t, "doc-tp2", home, "--tenant-partition", "tp2", "--service-cidr", "10.44.0.0/16",
		"--disable-agent")
	home.waitNodeReady(t, worker.host.Name, worker.started)
	waitDoctor := func(n *node, what, code, subject string, want bool) {
		t.Helper()
		hosts.Until(t, patience, "the doctor on "+n.host.Name+" "+what, func(context.Context) error {
			d, _ := n.doctor(t)
			for _, p := range d.Problems {
				if p.Code != code {
					continue
				}
				if !want || p.Subject != subject {
					return fmt.Errorf("it says %+v", p)
				}
				if code == "node-port-ranges-shared" && !strings.Contains(p.Fix, "--service-node-port-range") {
					t.Fatalf("its advice is %q", p.Fix)
				}
				return nil
			}
			if want {
				return fmt.Errorf("it says %+v", d.Problems)
			}
			return nil
		})
	}
	for _, c := range []*cluster{home, tp2} {
		waitDoctor(&c.node, "tells of the node ports", "node-port-ranges-shared", "main, tp2", true)
	}

	// Where home's range counts, a node port of tp2 is nobody's.
	s := &partitionServices{of: map[string]*cluster{"tp2": tp2}, nodes: []string{worker.host.Name}}
	s.system(t, "tp2")
	s.serve(t, "tp2", "kube-system", worker.host.Name)
	opened := func(name string) int32 {
		t.Helper()
		web := service(name, "web")
		web.Spec.Type = corev1.ServiceTypeNodePort
		return tp2.createService(t, "kube-system", web).Spec.Ports[0].NodePort
	}
	ask := func(ctx context.Context, port int32) error {
		r, err := home.host.Run(ctx, env.testbox, "get", fmt.Sprintf("http://%s:%d/hostname", worker.host.IP, port))
		if err != nil {
			return err
		}
		if r.ExitCode != 0 || strings.TrimSpace(r.Stdout) != podOn("tp2", worker.host.Name) {
			return fmt.Errorf("port %d answers: %s%s", port, r.Stdout, r.Stderr)
		}
		return nil
	}
	before := opened("before")

	// Its advice, word by word: the servers of one of them, and then the agents.
	if err := tp2.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	tp2.args = append(tp2.args, "--service-node-port-range", ports)
	tp2.restart(t)
	hosts.Until(t, soon, "home has the range of tp2", func(context.Context) error {
		if out := home.mustKubectl(t, "get partitions -o wide"); !strings.Contains(out, ports) {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	if err := worker.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	if err := worker.start(); err != nil {
		t.Fatal(err)
	}
	home.waitNodeReady(t, worker.host.Name, worker.started)
	for _, c := range []*cluster{home, tp2} {
		waitDoctor(&c.node, "tells of the node ports no more", "node-port-ranges-shared", "", false)
	}
	after := opened("after")
	if after < 28000 || after > 29999 {
		t.Errorf("the node port is %d", after)
	}
	hosts.Until(t, soon, "the node port is served", func(ctx context.Context) error { return ask(ctx, after) })
	if err := ask(t.Context(), before); err == nil {
		t.Errorf("node port %d, outside of the range, is served where home's range counts", before)
	}

	waitDoctor(worker, "finds no partition away", "partition-unreachable", "", false)
	tp2.proc.Kill()
	waitDoctor(worker, "tells that tp2 is away", "partition-unreachable", "tp2", true)
	if out := worker.must(t, "doctor"); !strings.Contains(out, "A partition of the cluster does not answer (tp2)") {
		t.Errorf("the doctor says %s", out)
	}
	tp2.restart(t)
	waitDoctor(worker, "tells that no more", "partition-unreachable", "", false)
	if d, _ := worker.doctor(t); d.has("server-unreachable") {
		t.Errorf("it tells of its own server: %+v", d.Problems)
	}
}
