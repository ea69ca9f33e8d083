package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/server/partition/allocations"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
	"github.com/a4s-io/a4s/tests/hollownode"
	"github.com/a4s-io/a4s/tests/hosts"
)

// hollow are nodes that say that they are there until the test ends.
type hollow struct {
	ctx     context.Context
	running sync.WaitGroup
}

func newHollow(t *testing.T) *hollow {
	ctx, cancel := context.WithCancel(t.Context())
	h := &hollow{ctx: ctx}
	t.Cleanup(func() {
		cancel()
		h.running.Wait()
	})
	return h
}

// make makes a node of 4 CPUs that is ready.
func (h *hollow) make(t *testing.T, c *cluster, name, fleet string) {
	t.Helper()
	made, err := c.client.CoreV1().Nodes().Create(t.Context(),
		hollownode.New(name, map[string]string{"fleet": fleet}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client, ctx := c.client, h.ctx
	h.running.Go(func() { hollownode.Live(ctx, made, client) })
}

// hollowPod asks for one CPU of a node of a fleet.
func hollowPod(name, fleet string) *corev1.Pod {
	p := testboxPod(name)
	p.Spec.NodeSelector = map[string]string{"fleet": fleet}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	return p
}

// createIn makes a pod of the system, once it can be made.
func createIn(t *testing.T, c *cluster, p *corev1.Pod) {
	t.Helper()
	hosts.Until(t, podTimeout, "pod "+p.Name+" is made", func(ctx context.Context) error {
		_, err := c.client.CoreV1().Pods("default").Create(ctx, p.DeepCopy(), metav1.CreateOptions{})
		return err
	})
}

// removeIn removes a pod whose kubelet does not exist.
func removeIn(t *testing.T, c *cluster, name string) {
	t.Helper()
	now := int64(0)
	if err := c.client.CoreV1().Pods("default").Delete(t.Context(), name,
		metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
}

// makeRoom removes all pods that wait, and one that does not, and waits until the partition
// of the nodes knows it.
func makeRoom(t *testing.T, rp *cluster, tps []*cluster) {
	t.Helper()
	bound := ""
	for _, tp := range tps {
		list, err := tp.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			switch {
			case p.Spec.NodeName == "":
				removeIn(t, tp, p.Name)
			case tp == tps[0] && p.Spec.NodeSelector["fleet"] == "rp2":
				bound = p.Name
			}
		}
	}
	if bound == "" {
		t.Fatal("home has no pod on nodes of rp2")
	}
	removeIn(t, tps[0], bound)
	hosts.Until(t, soon, "its share is taken back", func(ctx context.Context) error {
		list, err := allocationsOf(t, rp).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods := int64(0)
		for _, a := range list.Items {
			pods += a.Others("").Pods
		}
		if pods != 15 {
			err = fmt.Errorf("there are %d pods", pods)
		}
		return err
	})
}

func waitFor(t *testing.T, c *cluster, name, what string, holds func(*corev1.Pod) bool) {
	t.Helper()
	hosts.Until(t, podTimeout, "pod "+name+": "+what, func(ctx context.Context) error {
		p, err := c.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && !holds(p) {
			err = fmt.Errorf("node %q, %+v", p.Spec.NodeName, p.Status)
		}
		return err
	})
}

func waitBound(t *testing.T, c *cluster, name string) {
	t.Helper()
	waitFor(t, c, name, "it has a node", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
}

// waitCopy waits for the copy of a node, which has its UID.
func waitCopy(t *testing.T, rp, tp *cluster, name, partition string) {
	t.Helper()
	hosts.Until(t, podTimeout, "the copy of "+name+" at "+tp.host.Name, func(ctx context.Context) error {
		want, err := rp.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got, err := tp.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got.UID != want.UID || got.Labels[nodecopies.Label] != partition ||
			got.Labels["turn"] != want.Labels["turn"] || got.Spec.Unschedulable != want.Spec.Unschedulable {
			return fmt.Errorf("UID %s, labels %v, want %s", got.UID, got.Labels, want.UID)
		}
		return nil
	})
}

// testNodeWrites: what is changed of a copy is changed of the node.
func allocationsOf(t *testing.T, c *cluster) *allocations.Client {
	t.Helper()
	client, err := allocations.NewClient(c.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// testShared: two schedulers give out 16 CPUs of one partition, and 8 of home.
