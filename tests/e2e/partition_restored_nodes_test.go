package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

// TestRestoredResourcePartition: a partition with nodes other than home is restored. Pods of
// others run on on its nodes, on those that it does not know any more, too; these register
// again. Nothing is placed before everybody has said what is there.
func TestRestoredResourcePartition(t *testing.T) {
	t.Parallel()
	home := ownCluster(t, "partrr-home", "--disable-agent")
	rp2 := beginRoles(t, "partrr-rp2", home, "--resource-partition", "rp2", "--cluster-cidr", "10.142.0.0/16",
		"--disable-agent")
	early := newAgent(t, "partrr-early", rp2)
	tp2 := beginRoles(t, "partrr-tp2", home, "--tenant-partition", "tp2", "--service-cidr", "10.44.0.0/16",
		"--disable-agent")
	tps := map[string]*cluster{"main": home, "tp2": tp2}
	rp2.waitNodeReady(t, early.host.Name, early.started)
	fleet := newHollow(t)
	fleet.make(t, rp2, "partrr-gone", "none")
	for _, tp := range tps {
		waitCopy(t, rp2, tp, early.host.Name, "rp2")
		waitCopy(t, rp2, tp, "partrr-gone", "rp2")
	}
	r := &restoredNodes{rp2: rp2, tps: tps, early: early, pods: map[string][]*corev1.Pod{}}
	r.run(t, early)
	snapshot := strings.TrimSpace(rp2.must(t, "etcd-snapshot", "save", "--name", "before"))

	late := newAgent(t, "partrr-late", rp2, "--node-label", "example.com/late=yes")
	rp2.waitNodeReady(t, late.host.Name, late.started)
	home.mustKubectl(t, "annotate node "+late.host.Name+" example.com/by=hand")
	home.mustKubectl(t, "taint node "+late.host.Name+" "+passingTaint+"=x:NoSchedule")
	r.run(t, early)
	r.run(t, late)
	home.mustKubectl(t, "delete node partrr-gone")
	for _, tp := range tps {
		waitNoNode(t, tp, "partrr-gone")
	}
	was := getNode(t, rp2, late.host.Name)
	others := home.witnessPods(t, r.pods["main"]...)

	rp2.proc.Kill()
	tp2.proc.Kill()
	rp2.must(t, "etcd-snapshot", "restore", snapshot)
	rp2.restart(t)

	t.Run("a node that it does not know registers again", func(t *testing.T) {
		rp2.waitLease(t, late.host.Name, rp2.started)
		rp2.waitNodeReady(t, late.host.Name, late.started)
		now := getNode(t, rp2, late.host.Name)
		if now.UID == was.UID {
			t.Errorf("it was never away")
		}
		if now.Spec.PodCIDR != was.Spec.PodCIDR || now.Labels["example.com/late"] != "yes" ||
			now.Annotations["example.com/by"] != "hand" || !slices.ContainsFunc(now.Spec.Taints,
			func(t corev1.Taint) bool { return t.Key == passingTaint }) {
			t.Errorf("it is %+v %+v, was %+v %+v", now.ObjectMeta, now.Spec, was.ObjectMeta, was.Spec)
		}
		waitCopy(t, rp2, home, late.host.Name, "rp2")
	})
	t.Run("nothing is placed before everybody has said what is there", func(t *testing.T) {
		waits := partPod("waits", "main", "")
		waits.Spec.NodeSelector = map[string]string{corev1.LabelHostname: early.host.Name}
		home.createPod(t, "kube-system", waits)
		home.waitPod(t, "kube-system", "waits", "waits for what tp2 has", func(p *corev1.Pod) bool {
			return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodScheduled && strings.Contains(c.Message, "waited for tenant partitions")
			})
		})
		tp2.restart(t)
		r.pods["main"] = append(r.pods["main"], home.waitPodReady(t, "kube-system", "waits"))
	})
	t.Run("the shares are what the pods are", func(t *testing.T) {
		for partition, pods := range r.pods {
			for _, n := range []*node{early, late} {
				waitShare(t, rp2, n.host.Name, partition, slices.DeleteFunc(slices.Clone(pods),
					func(p *corev1.Pod) bool { return p.Spec.NodeName != n.host.Name })...)
			}
		}
	})
	t.Run("a node that was deleted is back", func(t *testing.T) {
		for _, tp := range tps {
			waitCopy(t, rp2, tp, "partrr-gone", "rp2")
		}
		home.mustKubectl(t, "delete node partrr-gone")
		for _, tp := range tps {
			waitNoNode(t, tp, "partrr-gone")
		}
	})
	t.Run("the pods are untouched", func(t *testing.T) {
		waitCopy(t, rp2, tp2, late.host.Name, "rp2")
		others.untouched(t)
		for _, p := range r.pods["tp2"] {
			tp2.unchanged(t, p)
			if out := tp2.said(t, "kube-system", p.Name); out != "I am of tp2\n" {
				t.Errorf("the logs are %q", out)
			}
		}
	})
	t.Run("a node that is deleted stays away", func(t *testing.T) {
		home.mustKubectl(t, "delete node "+late.host.Name)
		waitNoNode(t, home, late.host.Name)
		// kube-proxy ends its process by the event. Nobody makes the node before it starts again.
		hosts.Until(t, podTimeout, "the agent has ended", func(context.Context) error {
			if late.proc.Running() {
				return errors.New("it runs")
			}
			return nil
		})
		waitNoNode(t, rp2, late.host.Name)
	})
	t.Run("and is back, by its token, when its agent starts", func(t *testing.T) {
		if err := late.start(); err != nil {
			t.Fatal(err)
		}
		rp2.waitNodeReady(t, late.host.Name, late.started)
		waitCopy(t, rp2, home, late.host.Name, "rp2")
	})
}

// restoredNodes is a cluster with a resource partition that is restored.
type restoredNodes struct {
	rp2   *cluster
	tps   map[string]*cluster
	early *node
	pods  map[string][]*corev1.Pod // by the tenant partition
}

// run runs one more pod of each tenant partition on a node.
func (r *restoredNodes) run(t *testing.T, n *node) {
	t.Helper()
	for partition, tp := range r.tps {
		pod := partPod(fmt.Sprint("kept-", len(r.pods[partition])), partition, n.host.Name)
		tp.createPod(t, "kube-system", pod)
		r.pods[partition] = append(r.pods[partition], pod)
	}
	for partition, tp := range r.tps {
		last := len(r.pods[partition]) - 1
		r.pods[partition][last] = tp.waitPodReady(t, "kube-system", r.pods[partition][last].Name)
	}
}

// getNode is a node as a partition has it.
func getNode(t *testing.T, c *cluster, name string) *corev1.Node {
	t.Helper()
	n, err := c.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// waitNoNode waits until a partition does not know a node.
func waitNoNode(t *testing.T, c *cluster, name string) {
	t.Helper()
	hosts.Until(t, soon, "no node "+name+" at "+c.host.Name, func(ctx context.Context) error {
		_, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return wantNotFound(err)
	})
}
