package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// cut makes a host lose all that it sends to an address and all that comes from
// there, without anybody being told; mend takes that back.
func cut(t *testing.T, h *hosts.Host, address string) (mend func()) {
	t.Helper()
	run(t, h, "nft", fmt.Sprintf(`add table ip cut
add chain ip cut out { type filter hook output priority -300; }
add chain ip cut in { type filter hook input priority -300; }
add rule ip cut out ip daddr %[1]s drop
add rule ip cut in ip saddr %[1]s drop`, address))
	return func() {
		t.Helper()
		run(t, h, "nft", "delete table ip cut")
	}
}

// waitHeartbeat waits until a node has given a sign of life after some time.
func (c *cluster) waitHeartbeat(t *testing.T, name string, since time.Time) {
	t.Helper()
	hosts.Until(t, startTimeout, "node "+name+" gives a sign of life", func(ctx context.Context) error {
		lease, err := c.client.CoordinationV1().Leases("kube-node-lease").Get(ctx, name, metav1.GetOptions{})
		if err == nil && lease.Spec.RenewTime.Time.Before(since) {
			err = fmt.Errorf("the last is of %s", lease.Spec.RenewTime)
		}
		return err
	})
}

// TestNodeOutlivesAWayToItsServer: a server has two addresses, one that the
// node is told and one that it learns. Whichever is cut off, the node goes on
// by the other, also when it starts anew.
func TestNodeOutlivesAWayToItsServer(t *testing.T) {
	t.Parallel()
	const told, nobody = "192.0.2.77", "192.0.2.78"
	h := newHost(t, "ways")
	c, err := newServer(h, "--node-ip", h.IP.String(), "--tls-san", told)
	if err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	run(t, h, "ip", "address", "add", told+"/32", "dev", "lo")
	c.waitReady(t)
	c.waitOwnNode(t)

	worker := &node{host: newHost(t, "ways-worker")}
	run(t, worker.host, "ip", "route", "add", told, "via", h.IP.String())
	run(t, worker.host, "ip", "route", "add", "blackhole", nobody)
	worker.args = []string{"agent", "--server", "https://" + nobody + ":6443,https://" + told + ":6443",
		"--token", c.nodeToken(t)}
	if err := errors.Join(worker.importImages(), worker.start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			worker.printLogs(t)
		}
	})
	name, learned := worker.host.Name, h.IP.String()
	c.waitNodeReady(t, name, worker.started)
	ns := c.namespace(t)
	c.runPod(t, ns, on(name, testboxPod("before")))
	hosts.Until(t, soon, "the node has learned the address of the server", func(context.Context) error {
		if list := run(t, worker.host, "cat", dataDir+"/agent/servers.json"); !strings.Contains(list,
			`"`+learned+`:6443"`) {
			return errors.New(list)
		}
		return nil
	})
	hosts.Until(t, soon, "the node uses it", func(context.Context) error {
		if links := run(t, worker.host, "ss", "-Htn", "state", "established", "dst", learned+":6443"); links == "" {
			return errors.New("there is no connection to it")
		}
		return nil
	})

	mend := cut(t, worker.host, learned)
	c.waitHeartbeat(t, name, time.Now())
	c.runPod(t, ns, on(name, testboxPod("while-cut")))
	worker.restart(t)
	c.waitNodeReady(t, name, worker.started)
	c.runPod(t, ns, on(name, testboxPod("restarted-while-cut")))
	mend()

	mend = cut(t, worker.host, told)
	worker.restart(t)
	c.waitNodeReady(t, name, worker.started)
	c.runPod(t, ns, on(name, testboxPod("by-what-it-learned")))
	// A command that does not go through the load balancer knows the list too.
	worker.must(t, "certificate", "rotate")
	mend()

	node, err := c.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(node.Spec.Taints) > 0 {
		t.Errorf("the node was given up for a while: %v", node.Spec.Taints)
	}
}

// restart ends an agent and starts it again.
func (n *node) restart(t *testing.T) {
	t.Helper()
	if err := errors.Join(n.proc.Stop(stopTimeout), n.start()); err != nil {
		t.Fatal(err)
	}
}
