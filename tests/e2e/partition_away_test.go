package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// An absence is a way in which a server is away and comes back.
type absence struct {
	name       string
	leave, end func(*testing.T, *cluster)
}

var (
	down = absence{"down", func(_ *testing.T, c *cluster) { c.proc.Kill() },
		func(t *testing.T, c *cluster) { c.restart(t) }}
	hung   = absence{"hung", send(unix.SIGSTOP), send(unix.SIGCONT)}
	cutOut = absence{"cut off", link((*hosts.Host).Unplug), link((*hosts.Host).Plug)}
)

func send(s unix.Signal) func(*testing.T, *cluster) {
	return func(t *testing.T, c *cluster) {
		t.Helper()
		if err := unix.Kill(c.proc.PID(), s); err != nil {
			t.Fatal(err)
		}
	}
}

func link(change func(*hosts.Host) error) func(*testing.T, *cluster) {
	return func(t *testing.T, c *cluster) {
		t.Helper()
		if err := change(c.host); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPartitionsAway: a partition with nodes and one with tenants are away for longer than a
// node may be silent, and longer than pods are kept whose node is gone. Nothing happens to a
// pod, of whichever partition, in the absence or when they are back, and logs are read all the
// time. A4S_OUTAGE is for how long.
func TestPartitionsAway(t *testing.T) {
	t.Parallel()
	outage, err := time.ParseDuration(cmp.Or(os.Getenv("A4S_OUTAGE"), "75s"))
	if err != nil {
		t.Fatalf("A4S_OUTAGE: %v", err)
	}
	home := ownCluster(t, "parta-home", "--disable-agent")
	ofHome := newAgent(t, "parta-worker", home)
	// Its own node hangs with it, but is heard when it is cut off: then not all are unknown.
	rp2 := beginRoles(t, "parta-rp2", home, "--resource-partition", "rp2", "--cluster-cidr", "10.142.0.0/16")
	ofRP2 := newAgent(t, "parta-far", rp2)
	tp2 := beginRoles(t, "parta-tp2", home, "--tenant-partition", "tp2", "--service-cidr", "10.44.0.0/16",
		"--disable-agent")
	home.waitNodeReady(t, ofHome.host.Name, ofHome.started)
	rp2.waitOwnNode(t)
	rp2.waitNodeReady(t, ofRP2.host.Name, ofRP2.started)
	nodes := []string{ofHome.host.Name, ofRP2.host.Name}
	pods := map[*cluster][]*corev1.Pod{}
	for partition, tp := range map[string]*cluster{"main": home, "tp2": tp2} {
		for _, node := range nodes {
			hosts.Until(t, podTimeout, tp.host.Name+" knows node "+node, func(ctx context.Context) error {
				_, err := tp.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
				return err
			})
			pods[tp] = append(pods[tp], tp.createPod(t, "kube-system", partPod("kept-"+node, partition, node)))
		}
	}
	var all []*podWitness
	for tp, made := range pods {
		for i, p := range made {
			made[i] = tp.waitPodReady(t, "kube-system", p.Name)
		}
		all = append(all, tp.witnessPods(t, made...))
	}
	for _, c := range []struct{ ofNodes, ofTenants absence }{{down, hung}, {hung, cutOut}, {cutOut, down}} {
		t.Run(fmt.Sprintf("nodes %s, tenants %s", c.ofNodes.name, c.ofTenants.name), func(t *testing.T) {
			c.ofNodes.leave(t, rp2)
			c.ofTenants.leave(t, tp2)
			began := time.Now()
			readsLogs(t, home, "kept-"+ofRP2.host.Name)
			// Home works all the time, on the nodes that can be asked.
			for i := 0; time.Since(began) < outage; i++ {
				name := fmt.Sprint("meanwhile-", i)
				home.runOn(t, "kube-system", partPod(name, "main", ofHome.host.Name))
				home.removed(t, "kube-system", name)
			}
			back := time.Now()
			c.ofNodes.end(t, rp2)
			c.ofTenants.end(t, tp2)
			rp2.waitLease(t, ofRP2.host.Name, back)
			rp2.waitNodeReady(t, ofRP2.host.Name, ofRP2.started)
			for partition, tp := range map[string]*cluster{"main": home, "tp2": tp2} {
				for _, node := range nodes {
					name := "back-" + node
					tp.runOn(t, "kube-system", partPod(name, partition, node))
					tp.removed(t, "kube-system", name)
				}
			}
			readsLogs(t, home, "kept-"+ofRP2.host.Name)
			for _, w := range all {
				w.untouched(t)
			}
		})
	}
}

// readsLogs reads the log of a pod on a node: its kubelet asks the partition of the node whether
// the server may, and another one while that is away.
func readsLogs(t *testing.T, c *cluster, pod string) {
	t.Helper()
	hosts.Until(t, soon, "the logs of pod "+pod, func(ctx context.Context) error {
		_, err := c.client.CoreV1().Pods("kube-system").GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(ctx)
		return err
	})
}
