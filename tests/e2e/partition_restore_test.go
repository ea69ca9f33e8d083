package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// partitionsFile is what a server knows of the partitions.
const partitionsFile = dataDir + "/server/partition-directory.json"

// TestPartitionRestore: the home partition is restored from a snapshot that is older than
// another partition. Nothing of that one is lost, whatever else is down, until an operator
// removes it; and then it does not come back, and its name is free.
func TestPartitionRestore(t *testing.T) {
	t.Parallel()
	home := ownCluster(t, "partr-home", "--disable-agent")
	worker := newAgent(t, "partr-worker", home)
	home.waitNodeReady(t, worker.host.Name, worker.started)
	kept := home.runOn(t, "kube-system", partPod("kept", "main", worker.host.Name))
	before := strings.TrimSpace(home.must(t, "etcd-snapshot", "save", "--name", "before"))
	tp2 := beginRoles(t, "partr-tp2", home, "--tenant-partition", "tp2", "--service-cidr", "10.44.0.0/16",
		"--disable-agent")
	hosts.Until(t, podTimeout, "tp2 has the node", func(ctx context.Context) error {
		_, err := tp2.client.CoreV1().Nodes().Get(ctx, worker.host.Name, metav1.GetOptions{})
		return err
	})
	r := &restored{home: home, tp2: tp2, worker: worker, snapshot: before,
		pods: map[*cluster]*corev1.Pod{home: kept}}
	tp2.must(t, "tenant", "create", "of-tp2", "--partition", "tp2", "--output", "/run/of-tp2")
	tp2.must(t, "kubectl", "--kubeconfig", "/run/of-tp2", "create", "configmap", "mine")
	r.pods[tp2] = tp2.runOn(t, "kube-system", partPod("kept", "tp2", worker.host.Name))
	r.shared(t)

	t.Run("it registers itself again", func(t *testing.T) {
		r.restore(t, true)
		r.whole(t)
	})
	t.Run("it is down", func(t *testing.T) {
		tp2.proc.Kill()
		r.restore(t, true)
		r.forgotten(t, 1)
		// A node that starts meanwhile knows what it knew.
		worker.proc.Kill()
		if err := worker.start(); err != nil {
			t.Fatal(err)
		}
		r.forgotten(t, 1)
		home.waitNodeReady(t, worker.host.Name, worker.started)
		home.runOn(t, "kube-system", partPod("while-down", "main", worker.host.Name))
		tp2.restart(t)
		r.whole(t)
	})
	t.Run("home knows from its disk what it forgot", func(t *testing.T) {
		hosts.Until(t, soon, "it is on its disk", func(context.Context) error {
			data, err := os.ReadFile(home.host.Path(partitionsFile))
			if err == nil && !strings.Contains(string(data), "tp2") {
				err = errors.New(string(data))
			}
			return err
		})
		tp2.proc.Kill()
		r.restore(t, false)
		hosts.Until(t, podTimeout, "the doctor says so", func(context.Context) error {
			if out := home.a4s(t, "doctor").Stdout; !strings.Contains(out, "does not know a partition (tp2)") {
				return errors.New(out)
			}
			return nil
		})
		// What tp2 has on the node is not known, so nothing is placed there.
		createIn(t, home, testboxPod("waits"))
		waitFor(t, home, "waits", "it waits for what tp2 has", func(p *corev1.Pod) bool {
			return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodScheduled && strings.Contains(c.Message, "waited for tenant partitions")
			})
		})
		tp2.restart(t)
		waitBound(t, home, "waits")
		r.whole(t)
		hosts.Until(t, podTimeout, "the doctor says it no more", func(context.Context) error {
			if out := home.a4s(t, "doctor").Stdout; strings.Contains(out, "does not know a partition") {
				return errors.New(out)
			}
			return nil
		})
	})
	t.Run("it is removed, and stays away", func(t *testing.T) { r.testRemoved(t) })
}

// restored is a home partition that is restored, and what must not change by it.
type restored struct {
	home, tp2 *cluster
	worker    *node // of home
	snapshot  string
	pods      map[*cluster]*corev1.Pod
}

// restore restores home. On a new machine there is nothing but the snapshot.
func (r *restored) restore(t *testing.T, newMachine bool) {
	t.Helper()
	r.home.proc.Kill()
	r.home.must(t, "etcd-snapshot", "restore", r.snapshot)
	if newMachine {
		if err := os.Remove(r.home.host.Path(partitionsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	r.home.restart(t)
}

// forgotten waits until the agent has said, after its start, that home does not know tp2.
func (r *restored) forgotten(t *testing.T, times int) {
	t.Helper()
	hosts.Until(t, podTimeout, "the node learns what home does not know", func(context.Context) error {
		log, err := os.ReadFile(r.worker.proc.Log)
		if err == nil && strings.Count(string(log), "does not know what this node knows of") < times {
			err = errors.New("the log does not say it")
		}
		return err
	})
}

// whole waits until home knows all again, and checks that nothing has happened to the pods.
func (r *restored) whole(t *testing.T) {
	t.Helper()
	hosts.Until(t, podTimeout, "home knows tp2 and its tenant", func(context.Context) error {
		if out := r.home.a4s(t, "kubectl", "get", "partitions,tenantplacements").Stdout; !strings.Contains(out,
			"10.44.0.0/16") || !strings.Contains(out, "tenantplacement/of-tp2") {
			return errors.New(out)
		}
		return nil
	})
	hosts.Until(t, podTimeout, "the tenant is served by home", func(context.Context) error {
		if out := r.tp2.a4s(t, "kubectl", "--kubeconfig", "/run/of-tp2", "--server", r.home.url(), "get",
			"configmap", "mine"); out.ExitCode != 0 {
			return errors.New(out.Stderr)
		}
		return nil
	})
	r.shared(t)
	for c, was := range r.pods {
		c.unchanged(t, was)
	}
	if out := r.tp2.said(t, "kube-system", "kept"); out != "I am of tp2\n" {
		t.Errorf("the logs are %q", out)
	}
}

// shared waits until home knows what tp2 has of the node.
func (r *restored) shared(t *testing.T) {
	t.Helper()
	hosts.Until(t, podTimeout, "home knows what tp2 has of the node", func(ctx context.Context) error {
		a, err := allocationsOf(t, r.home).Get(ctx, r.worker.host.Name, metav1.GetOptions{})
		if err == nil && (a.Of("tp2").Pods < 1 || len(a.Awaited) > 0) {
			err = fmt.Errorf("%+v", a)
		}
		return err
	})
}

// testRemoved removes tp2, whose servers start again, and begins another one of its name while
// the node is away.
func (r *restored) testRemoved(t *testing.T) {
	r.home.must(t, "tenant", "delete", "of-tp2")
	hosts.Until(t, podTimeout, "its tenant is gone", func(context.Context) error {
		if out := r.home.a4s(t, "kubectl", "get", "tenantplacements").Stdout; strings.Contains(out, "of-tp2") {
			return errors.New(out)
		}
		return nil
	})
	r.tp2.proc.Kill()
	r.worker.proc.Kill()
	r.home.must(t, "partition", "remove", "tp2")
	r.tp2.restart(t)
	hosts.Until(t, podTimeout, "it is refused", func(context.Context) error {
		log, err := os.ReadFile(r.tp2.proc.Log)
		if err == nil && !strings.Contains(string(log), "it was removed from the cluster, and does not come back") {
			err = errors.New("its log does not say so")
		}
		return err
	})
	if out := r.home.mustKubectl(t, "get partitions"); strings.Contains(out, "tp2") {
		t.Errorf("it came back: %s", out)
	}
	r.tp2.proc.Kill()
	second := beginRoles(t, "partr-second", r.home, "--tenant-partition", "tp2", "--service-cidr", "10.45.0.0/16",
		"--disable-agent")
	if err := r.worker.start(); err != nil {
		t.Fatal(err)
	}
	r.home.waitNodeReady(t, r.worker.host.Name, r.worker.started)
	// The same name, and another pod.
	pod := second.runOn(t, "kube-system", partPod("kept", "tp2", r.worker.host.Name))
	if pod.UID == r.pods[r.tp2].UID {
		t.Errorf("it is the pod of the removed partition: %+v", pod.ObjectMeta)
	}
	hosts.Until(t, podTimeout, "the pod of the removed partition has ended", func(context.Context) error {
		out := run(t, r.worker.host, env.binary, "ctr", "-n", "k8s.io", "containers", "ls")
		if strings.Contains(out, containerID(r.pods[r.tp2])) {
			return errors.New(out)
		}
		return nil
	})
	now, err := r.home.client.CoreV1().Pods("kube-system").Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || now.UID != r.pods[r.home].UID || containerID(now) != containerID(r.pods[r.home]) {
		t.Errorf("that of home is another one: %+v, %v", now, err)
	}
}
