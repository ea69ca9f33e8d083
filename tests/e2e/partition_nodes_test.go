package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/server/partition/nodecopies"
	"github.com/a4s-io/a4s/tests/hosts"
)

// TestPartitionNodes: one partition has tenants only, one nodes only, and home both. Nodes
// are visible and used where tenants are, and belong to one partition.
func TestPartitionNodes(t *testing.T) {
	t.Parallel()
	home := ownCluster(t, "partn-home", "--disable-agent")
	// It runs before home knows that it will not be alone.
	fleet, alone := newHollow(t), hollowPod("alone", "home")
	fleet.make(t, home, "home-0", "home")
	createIn(t, home, alone)
	waitBound(t, home, "alone")

	rp2 := beginRoles(t, "partn-rp2", home, "--resource-partition", "rp2", "--cluster-cidr", "10.142.0.0/16")
	tp2 := beginRoles(t, "partn-tp2", home, "--tenant-partition", "tp2", "--service-cidr", "10.44.0.0/16",
		"--disable-agent")
	tps := []*cluster{home, tp2}
	rp2.waitOwnNode(t)

	t.Run("nodes are seen where tenants are", func(t *testing.T) {
		for _, tp := range tps {
			waitCopy(t, rp2, tp, rp2.host.Name, "rp2")
			if out := tp.mustKubectl(t, "get nodes"); !strings.Contains(out, rp2.host.Name) ||
				!strings.Contains(out, "home-0") {
				t.Errorf("%s: %s", tp.host.Name, out)
			}
		}
		waitCopy(t, home, tp2, "home-0", "main")
		if out := rp2.mustKubectl(t, "get nodes"); strings.Contains(out, "home-0") {
			t.Errorf("a partition without tenants has copies: %s", out)
		}
	})
	t.Run("writes go to the partition of the node", func(t *testing.T) { testNodeWrites(t, rp2, tps) })
	t.Run("heartbeats write no copies", func(t *testing.T) { testHeartbeats(t, fleet, rp2, tps) })
	t.Run("a node that is deleted disappears", func(t *testing.T) {
		fleet.make(t, rp2, "short", "rp2")
		for _, tp := range tps {
			waitCopy(t, rp2, tp, "short", "rp2")
		}
		if err := rp2.client.CoreV1().Nodes().Delete(t.Context(), "short", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, tp := range tps {
			waitNoNode(t, tp, "short")
		}
	})
	t.Run("the controllers of nodes leave copies alone", func(t *testing.T) {
		// That of address ranges would not start with a copy outside its range, and a new
		// node would get none.
		home.proc.Kill()
		home.restart(t)
		fleet.make(t, home, "home-1", "home")
		hosts.Until(t, podTimeout, "the node has addresses for pods", func(ctx context.Context) error {
			n, err := home.client.CoreV1().Nodes().Get(ctx, "home-1", metav1.GetOptions{})
			if err == nil && n.Spec.PodCIDR == "" {
				err = errors.New("none")
			}
			return err
		})
		waitCopy(t, rp2, home, rp2.host.Name, "rp2")
	})
	t.Run("names belong to one partition", func(t *testing.T) { testNodeNames(t, fleet, home, rp2, tp2) })
	t.Run("nothing is over-committed", func(t *testing.T) { testShared(t, fleet, home, rp2, tps) })
	t.Run("pods of a node that is not ready are not ready", func(t *testing.T) { testNotReady(t, rp2, tps) })
	t.Run("a pod is committed before it is bound", func(t *testing.T) {
		makeRoom(t, rp2, tps)
		rp2.proc.Kill()
		createIn(t, home, hollowPod("cut", "rp2"))
		waitFor(t, home, "cut", "it waits for the partition", func(p *corev1.Pod) bool {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && strings.Contains(c.Message, "does not answer") {
					return true
				}
			}
			return false
		})
		// Nothing happens to nodes and pods of a partition that is silent.
		if n, err := home.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{
			LabelSelector: nodecopies.Label + "=rp2"}); err != nil || len(n.Items) == 0 {
			t.Errorf("the copies are gone: %v", err)
		}
		testEvict(t, home, tps)
		rp2.restart(t)
		waitBound(t, home, "cut")
	})
	t.Run("a partition that leaves takes its nodes along", func(t *testing.T) {
		rp2.proc.Kill()
		if r := home.a4s(t, "partition", "remove", "rp2"); r.ExitCode == 0 ||
			!strings.Contains(r.Stderr, "pods of other partitions") {
			t.Errorf("a partition whose nodes have pods: %d %s", r.ExitCode, r.Stderr)
		}
		home.must(t, "partition", "remove", "rp2", "--force")
		for _, tp := range tps {
			hosts.Until(t, soon, "no copies at "+tp.host.Name, func(ctx context.Context) error {
				n, err := tp.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{
					LabelSelector: nodecopies.Label + "=rp2"})
				if err == nil && len(n.Items) > 0 {
					err = fmt.Errorf("there are %d", len(n.Items))
				}
				return err
			})
		}
		waitCopy(t, home, tp2, "home-0", "main")
		tp2.proc.Kill()
		home.must(t, "partition", "remove", "tp2")
		hosts.Until(t, podTimeout, "no shares of it at home", func(ctx context.Context) error {
			list, err := allocationsOf(t, home).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, a := range list.Items {
				if !a.Others("main").Empty() {
					return fmt.Errorf("node %s has %+v", a.Name, a.Shares)
				}
			}
			return nil
		})
	})
}

func testNodeWrites(t *testing.T, rp *cluster, tps []*cluster) {
	ctx, name := t.Context(), rp.host.Name
	for i, tp := range tps {
		turn := fmt.Sprint("by-", i)
		tp.mustKubectl(t, "label --overwrite node "+name+" turn="+turn)
		tp.mustKubectl(t, "cordon "+name)
		n, err := rp.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, copied := n.Labels[nodecopies.Label]; n.Labels["turn"] != turn || !n.Spec.Unschedulable || copied {
			t.Errorf("the node has the labels %v and %+v", n.Labels, n.Spec)
		}
		for _, other := range tps {
			waitCopy(t, rp, other, name, "rp2")
		}
		tp.mustKubectl(t, "uncordon "+name)
		if n, err = tp.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err = tp.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		if !apierrors.IsMethodNotSupported(err) || !strings.Contains(err.Error(), "/partitions/rp2") {
			t.Errorf("a copy is replaced: %v", err)
		}
		// A service account is known in its partition only.
		tp.mustKubectl(t, "create clusterrole labels-nodes --verb=get,patch --resource=nodes")
		tp.mustKubectl(t, "create clusterrolebinding labels-nodes --clusterrole=labels-nodes "+
			"--serviceaccount=kube-system:default")
		token := strings.TrimSpace(tp.mustKubectl(t, "create token default -n kube-system"))
		account := withToken(t, tp, token, nil)
		if _, err := account.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"account":%q}}}`, turn), metav1.PatchOptions{}); err != nil {
			t.Errorf("a service account of %s: %v", tp.host.Name, err)
		}
		n, err = rp.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil || n.Labels["account"] != turn {
			t.Errorf("%v, %v", n.Labels, err)
		}
		if err := account.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a service account without the right to do so deletes a node: %v", err)
		}
	}
}

// testHeartbeats: what a node says without a change stays where it says it.
func testHeartbeats(t *testing.T, fleet *hollow, rp *cluster, tps []*cluster) {
	ctx := t.Context()
	fleet.make(t, rp, "beats", "none")
	fleet.make(t, rp, "follows", "none")
	versions := func() []string {
		var out []string
		for _, tp := range tps {
			n, err := tp.client.CoreV1().Nodes().Get(ctx, "beats", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n.ResourceVersion)
		}
		return out
	}
	barrier := func(turn string) {
		t.Helper()
		if _, err := rp.client.CoreV1().Nodes().Patch(ctx, "follows", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"turn":"`+turn+`"}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, tp := range tps {
			waitCopy(t, rp, tp, "follows", "rp2")
		}
	}
	// It gets addresses, and loses the taint of new nodes.
	hosts.Until(t, podTimeout, "the node is as it will be", func(ctx context.Context) error {
		n, err := rp.client.CoreV1().Nodes().Get(ctx, "beats", metav1.GetOptions{})
		if err == nil && (n.Spec.PodCIDR == "" || len(n.Spec.Taints) > 0 ||
			n.Annotations["node.alpha.kubernetes.io/ttl"] == "" || n.Labels["beta.kubernetes.io/os"] == "") {
			err = fmt.Errorf("%+v %v", n.Spec, n.Annotations)
		}
		return err
	})
	for _, tp := range tps {
		waitCopy(t, rp, tp, "beats", "rp2")
	}
	barrier("1")
	was := versions()
	for i := range 10 {
		at := time.Now().Add(time.Duration(i) * time.Second).UTC().Format(time.RFC3339)
		if _, err := rp.client.CoreV1().Nodes().Patch(ctx, "beats", types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`, at),
			metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	barrier("2") // it comes behind them in the same stream
	if now := versions(); fmt.Sprint(was) != fmt.Sprint(now) {
		t.Errorf("the copies have versions %v, had %v", now, was)
	}
}

func testNotReady(t *testing.T, rp *cluster, tps []*cluster) {
	ctx := t.Context()
	const name = "hollow-0"
	say := func(ready corev1.ConditionStatus) {
		t.Helper()
		if _, err := rp.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, ready), metav1.PatchOptions{},
			"status"); err != nil {
			t.Fatal(err)
		}
	}
	ready := func(p *corev1.Pod) corev1.ConditionStatus {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady {
				return c.Status
			}
		}
		return ""
	}
	marked := map[*cluster]string{}
	for _, tp := range tps {
		list, err := tp.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{
			FieldSelector: "spec.nodeName=" + name})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			if _, err := tp.client.CoreV1().Pods("default").Patch(ctx, p.Name, types.StrategicMergePatchType,
				[]byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`),
				metav1.PatchOptions{}, "status"); err != nil {
				t.Fatal(err)
			}
			marked[tp] = p.Name
		}
	}
	if len(marked) == 0 {
		t.Fatal("nobody has a pod there")
	}
	say(corev1.ConditionFalse)
	for tp, pod := range marked {
		waitFor(t, tp, pod, "it is not ready", func(p *corev1.Pod) bool { return ready(p) == corev1.ConditionFalse })
	}
	say(corev1.ConditionTrue)
	hosts.Until(t, soon, "the node is as before", func(ctx context.Context) error {
		n, err := rp.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(n.Spec.Taints) > 0 {
			err = fmt.Errorf("it has the taints %v", n.Spec.Taints)
		}
		return err
	})
}

// testEvict: pods on nodes of a partition that is silent stay until an operator says so.
func testEvict(t *testing.T, home *cluster, tps []*cluster) {
	for name, want := range map[string]string{"main": "answers", "tp2": "no nodes", "none": "partition list"} {
		if r := home.a4s(t, "partition", "evict", name); r.ExitCode == 0 || !strings.Contains(r.Stderr, want) {
			t.Errorf("%s is evicted: %s %s", name, r.Stdout, r.Stderr)
		}
	}
	on := func(tp *cluster) (n int) {
		list, err := tp.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			if strings.HasPrefix(p.Spec.NodeName, "hollow-") {
				n++
			}
		}
		return n
	}
	for _, tp := range tps {
		if on(tp) == 0 {
			t.Errorf("%s has no pods there", tp.host.Name)
		}
	}
	out := home.must(t, "partition", "evict", "rp2")
	for _, tp := range tps {
		if n := on(tp); n > 0 {
			t.Errorf("%s still has %d pods there: %s", tp.host.Name, n, out)
		}
	}
}

func testShared(t *testing.T, fleet *hollow, home, rp2 *cluster, tps []*cluster) {
	const nodes, each = 4, 14
	for i := range nodes {
		fleet.make(t, rp2, fmt.Sprint("hollow-", i), "rp2")
	}
	for i := range nodes {
		for _, tp := range tps {
			waitCopy(t, rp2, tp, fmt.Sprint("hollow-", i), "rp2")
		}
	}
	for i := range each {
		for j, tp := range tps {
			createIn(t, tp, hollowPod(fmt.Sprint([]string{"first-", "second-"}[j], i), "rp2"))
			if i < each/2 {
				createIn(t, tp, hollowPod(fmt.Sprint([]string{"own-", "theirs-"}[j], i), "home"))
			}
		}
	}
	// What is full at the end: 4 nodes of rp2, and home-0 and home-1, where one pod was
	// before there was a second partition.
	hosts.Until(t, 2*podTimeout, "all room is given out", func(ctx context.Context) error {
		used := map[string]int{}
		for _, tp := range tps {
			list, err := tp.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, p := range list.Items {
				if p.Status.Phase == corev1.PodFailed {
					t.Errorf("pod %s of %s failed: %s", p.Name, tp.host.Name, p.Status.Message)
				}
				if p.Spec.NodeName != "" {
					used[p.Spec.NodeName]++
				}
			}
		}
		want := map[string]int{"home-0": 4, "home-1": 4}
		for i := range nodes {
			want[fmt.Sprint("hollow-", i)] = 4
		}
		for name, n := range used {
			if n > want[name] {
				t.Fatalf("node %s has %d pods of one CPU: %v", name, n, used)
			}
		}
		if fmt.Sprint(used) != fmt.Sprint(want) {
			return fmt.Errorf("nodes have %v", used)
		}
		return nil
	})
	for _, rp := range []*cluster{rp2, home} {
		hosts.Until(t, soon, "the shares are what the pods are", func(ctx context.Context) error {
			list, err := allocationsOf(t, rp).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			full := 0
			for _, a := range list.Items {
				all := a.Others("")
				if cpu := all.Requests.Cpu().Value(); cpu == 4 && all.Pods == 4 {
					full++
				} else if cpu > 4 {
					t.Errorf("node %s has %+v", a.Name, a.Shares)
				}
			}
			if want := map[*cluster]int{rp2: nodes, home: 2}[rp]; full != want {
				return fmt.Errorf("%d full nodes of %d: %+v", full, want, list.Items)
			}
			return nil
		})
	}
}
