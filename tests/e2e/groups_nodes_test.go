package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/tests/hosts"
)

// auditLog is where servers of these tests keep their audit log.
const auditLog = "/var/lib/a4s/audit.log"

// serviceIn runs a pod and a Service before it in a tenant, and returns what asks for the
// Service from the pod: by its ClusterIP, which kube-proxy of the pod's node has to know. The
// pod is to be what it was.
func (c *cluster) serviceIn(t *testing.T, tenant, name, node string) (answers func(*testing.T)) {
	t.Helper()
	in := *c
	in.client, in.tenant = c.inSpace(t, tenant), tenant
	svc := in.createService(t, "default", service(name, name))
	was := in.runPod(t, "default", on(node, testboxPod(name)))
	return func(t *testing.T) {
		t.Helper()
		now, err := in.client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || now.UID != was.UID || containerID(now) != containerID(was) || !podIsReady(now) ||
			!slices.Equal(now.Status.PodIPs, was.Status.PodIPs) {
			t.Fatalf("pod %s in %s: %v\n%+v\nwas\n%+v", name, tenant, err, now, was.Status)
		}
		in.waitAnswer(t, "default", name, name, "/get", "url", "http://"+svc.Spec.ClusterIP+"/hostname")
	}
}

// proxyWatches are the watches of EndpointSlices by which kube-proxy of a node follows all
// Services, as the audit log of a server has them: the stream of each, "" for everything.
func (c *cluster) proxyWatches(node string) ([]string, error) {
	log, err := os.ReadFile(c.host.Path(auditLog))
	if err != nil {
		return nil, err
	}
	var streams []string
	for line := range bytes.Lines(log) {
		// kube-proxy alone leaves out those of headless Services.
		if !bytes.Contains(line, []byte("labelSelector=%21service.kubernetes.io%2Fheadless")) {
			continue
		}
		var e struct {
			Stage, Verb, RequestURI string
			User                    struct{ Username string }
			Annotations             map[string]string
		}
		if err := json.Unmarshal(line, &e); err != nil {
			continue // it is being written
		}
		if e.Stage == "ResponseStarted" && e.Verb == "watch" && e.User.Username == "system:node:"+node &&
			strings.HasPrefix(e.RequestURI, "/apis/discovery.k8s.io/v1/endpointslices?") {
			streams = append(streams, e.Annotations["a4s.io/stream"])
		}
	}
	return streams, nil
}

// waitProxyStreams waits until kube-proxy of a node has asked each server for these streams.
func waitProxyStreams(t *testing.T, node string, want map[*cluster][]string) {
	t.Helper()
	hosts.Until(t, startTimeout, "kube-proxy of "+node+" has the streams of all groups",
		func(context.Context) error {
			for c, streams := range want {
				got, err := c.proxyWatches(node)
				if err != nil {
					return err
				}
				for _, stream := range streams {
					if !slices.Contains(got, stream) {
						return fmt.Errorf("server %s was asked for %q, not for %q", c.host.Name, got, stream)
					}
				}
			}
			return nil
		})
}

// TestNodeBeforeServiceGroups: a node that ran before there were service groups merges their
// streams, kube-proxy included, without being started again.
func TestNodeBeforeServiceGroups(t *testing.T) {
	t.Parallel()
	zero := ownCluster(t, "before-groups", "--cluster-init", "--audit-log-path", auditLog)
	worker := newAgent(t, "early", zero)
	zero.waitOwnNode(t)
	zero.waitNodeReady(t, worker.host.Name, worker.started)
	tenants := []string{"alpha", "zulu"}
	var early []func(*testing.T)
	for _, tenant := range tenants {
		zero.must(t, "tenant", "create", tenant, "--output", "/run/"+tenant)
		early = append(early, zero.serviceIn(t, tenant, "early", worker.host.Name))
	}
	for _, answers := range early {
		answers(t)
	}
	if got, err := zero.proxyWatches(worker.host.Name); err != nil || !slices.Contains(got, "") ||
		slices.ContainsFunc(got, func(stream string) bool { return stream != "" }) {
		t.Fatalf("without groups, kube-proxy asks for %q: %v", got, err)
	}
	if err := zero.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	zero.args = append(zero.args, "--service-group-id", "0")
	zero.restart(t)
	one := joinServer(t, "after-groups", zero, "--disable-agent", "--service-group-id", "1",
		"--audit-log-path", auditLog)
	zero.waitSubsets(t, map[string][]*cluster{"0": {zero}, "1": {one}})
	zero.setRange(t, "0", "", "m")
	zero.setRange(t, "1", "m", "")
	waitProxyStreams(t, worker.host.Name, map[*cluster][]string{zero: {"0"}, one: {"1"}})
	// The node of the server reaches the servers of the other group as well.
	zero.waitOwnNode(t)
	waitProxyStreams(t, zero.host.Name, map[*cluster][]string{zero: {"0", partitionapi.Rest}, one: {"1"}})
	for _, tenant := range tenants {
		for _, node := range []string{worker.host.Name, zero.host.Name} {
			zero.serviceIn(t, tenant, "late-"+node, node)(t)
		}
	}
	for _, answers := range early {
		answers(t)
	}
	if !worker.proc.Running() {
		t.Error("the node has ended on the way")
	}
}
