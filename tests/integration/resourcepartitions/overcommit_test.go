package resourcepartitions_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/server/partition/allocations"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
	"github.com/a4s-io/a4s/server/partition/shares"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
	"github.com/a4s-io/a4s/tests/sizes"
)

// fleet is tenant partitions over the nodes of one resource partition, which is the same
// server as the first.
type fleet struct {
	tps   []*plane
	nodes *kubelets
	names []string
	// problems are what the schedulers report.
	problems *health.Registry
}

// newFleet makes it.
func newFleet(t *testing.T, tps, nodes int, has room) *fleet {
	t.Helper()
	if err := planes.Prepare(); err != nil {
		t.Fatal(err)
	}
	f := &fleet{problems: health.NewRegistry(), nodes: &kubelets{has: has, used: map[string]map[types.UID]taken{}}}
	for i := range tps {
		name := "main"
		if i > 0 {
			name = fmt.Sprintf("tp%d", i+1)
		}
		f.tps = append(f.tps, startPlane(t, name, 6443+2*i))
	}
	for i := range nodes {
		n := node(fmt.Sprintf("n%d", i), fmt.Sprintf("%dm", has.cpu))
		n.Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(int64(has.pods), resource.DecimalSI)
		f.tps[0].register(t, n)
		f.names = append(f.names, n.Name)
	}
	for _, tp := range f.tps[1:] {
		importInto(t, tp, newSources(nodecopies.Source{Name: "main", Client: f.tps[0].reader(t, tp.name)}))
		for _, name := range f.names {
			awaitCopy(t, f.tps[0], tp, name)
		}
	}
	for _, tp := range f.tps {
		f.nodes.follow(t, tp)
	}
	return f
}

// schedule runs the schedulers.
func (f *fleet) schedule(t *testing.T, committed bool) (all []*shares.Stats) {
	t.Helper()
	for i, tp := range f.tps {
		local := ""
		if i == 0 {
			local = tp.name
		}
		all = append(all, schedule(t, tp, local, f.tps[:1], committed, f.problems))
	}
	return all
}

// standing is what pods do.
type standing struct{ running, waiting, failed int }

// settle waits until each pod either runs, or waits because nothing has room for it, and
// the shares, if there are any, are what the pods take. It ends with the first that failed.
func (f *fleet) settle(t *testing.T, commits *allocations.Client) (s standing) {
	t.Helper()
	open := ""
	defer func() {
		if t.Failed() {
			t.Logf("%+v, last: %s", s, open)
		}
	}()
	planes.Eventually(t, "the pods to run or to wait", func(ctx context.Context) (bool, error) {
		s, open = standing{}, ""
		type key struct{ partition, node string }
		sums := map[key]taken{}
		for _, tp := range f.tps {
			list, err := tp.admin.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			for i := range list.Items {
				switch pod := &list.Items[i]; {
				case pod.Status.Phase == corev1.PodFailed:
					s.failed++
				case pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil:
					s.running++
					k, own := key{tp.name, pod.Spec.NodeName}, takes(pod)
					sums[k] = taken{cpu: sums[k].cpu + own.cpu, ports: append(sums[k].ports, own.ports...)}
				case pod.Spec.NodeName == "" && slices.ContainsFunc(pod.Status.Conditions, hasNoNode):
					s.waiting++
					if on := f.nodes.roomFor(pod, f.names); on != "" && commits != nil {
						open = fmt.Sprintf("%s of %s waits, and has room on %s", pod.Name, tp.name, on)
					}
				default:
					open = fmt.Sprintf("%s of %s is %s", pod.Name, tp.name, pod.Status.Phase)
				}
			}
		}
		if commits == nil || open != "" {
			return open == "", nil
		}
		if s.failed > 0 {
			return true, nil
		}
		list, err := commits.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, a := range list.Items {
			for _, share := range a.Shares {
				k := key{share.Partition, a.Name}
				if sums[k].cpu != share.Requests.Cpu().MilliValue() || len(sums[k].ports) != len(share.HostPorts) {
					open = fmt.Sprintf("%s has %+v, and pods that take %+v", a.Name, share, sums[k])
				}
				delete(sums, k)
			}
		}
		for k, sum := range sums {
			open = fmt.Sprintf("%+v has no share for %+v", k, sum)
		}
		return open == "", nil
	})
	return s
}

// hasNoNode is the condition of a pod that nothing has room for. A refused commit is tried again.
func hasNoNode(c corev1.PodCondition) bool {
	return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable &&
		strings.Contains(c.Message, "nodes are available")
}

// clear deletes all pods and waits until no share is left.
func (f *fleet) clear(t *testing.T, commits *allocations.Client) {
	t.Helper()
	for _, p := range f.tps {
		// It can take longer than a request may.
		planes.Eventually(t, "the pods to be deleted", func(ctx context.Context) (bool, error) {
			err := p.admin.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
			return err == nil, nil
		})
	}
	planes.Eventually(t, "no pods and no shares", func(ctx context.Context) (bool, error) {
		for _, p := range f.tps {
			list, err := p.admin.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			if err != nil || len(list.Items) > 0 {
				return false, err
			}
		}
		list, err := commits.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return !slices.ContainsFunc(list.Items, func(a allocations.NodeAllocation) bool {
			return len(a.Shares) > 0
		}), nil
	})
}

// randomPod takes anything: mostly processors, sometimes a port of the node. Some push
// others of their partition away.
func randomPod(r *rand.Rand, name string) *corev1.Pod {
	p := pod(name, int64(100*(1+r.IntN(20))))
	if r.IntN(10) == 0 {
		port := int32(8000 + r.IntN(4))
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: port, HostPort: port}}
	}
	switch r.IntN(10) {
	case 0:
		p.Spec.PriorityClassName = "high"
	case 1, 2:
		p.Spec.PriorityClassName = "middle"
	}
	return p
}

// show prints what is on the nodes, by the word of all.
func (f *fleet) show(t *testing.T, commits *allocations.Client) {
	t.Helper()
	list, err := commits.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Log(err)
		return
	}
	for _, a := range list.Items {
		t.Logf("%s has %+v", a.Name, a.Shares)
	}
	for _, tp := range f.tps {
		pods, err := tp.admin.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Log(err)
			return
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			t.Logf("%s: %s %s on %s takes %+v, made %s, started %v", tp.name, p.Name, p.Status.Phase, p.Spec.NodeName,
				takes(p), p.CreationTimestamp, p.Status.Conditions)
		}
	}
}

// priorities makes the classes of randomPod.
func (f *fleet) priorities(t *testing.T) {
	t.Helper()
	for _, tp := range f.tps {
		for name, value := range map[string]int32{"high": 1000, "middle": 100} {
			if _, err := tp.admin.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// churn makes pods in all partitions at the same time, and deletes some soon after.
func (f *fleet) churn(t *testing.T, r *rand.Rand, pods int) (deleted int) {
	t.Helper()
	type plan struct {
		tp      *plane
		pod     *corev1.Pod
		endsIn  time.Duration
		deleted bool
	}
	var plans []plan
	for i := range pods {
		p := plan{tp: f.tps[i%len(f.tps)], pod: randomPod(r, fmt.Sprintf("p%d", i)), deleted: r.IntN(6) == 0,
			endsIn: time.Duration(r.Int64N(int64(5 * time.Second)))}
		if plans = append(plans, p); p.deleted {
			deleted++
		}
	}
	var ending sync.WaitGroup
	var failed atomic.Value
	inParallel(t, pods, func(ctx context.Context, i int) error {
		p := plans[i]
		in := p.tp.admin.CoreV1().Pods("default")
		if _, err := in.Create(ctx, p.pod, metav1.CreateOptions{}); err != nil || !p.deleted {
			return err
		}
		ending.Go(func() {
			<-time.After(p.endsIn)
			// It may have been pushed away.
			if err := in.Delete(ctx, p.pod.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				failed.Store(err)
			}
		})
		return nil
	})
	ending.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(err)
	}
	return deleted
}

// TestNothingIsOverCommitted: three schedulers give out the same nodes to 500 pods, some of
// which push others away or are deleted meanwhile. In many random runs no pod comes to a
// node that has no room for it, at the end no room is left that a waiting pod fits into, and
// the shares are what the pods take.
func TestNothingIsOverCommitted(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	const nodes, pods = 30, 500
	f := newFleet(t, 3, nodes, room{cpu: 10000, pods: 14})
	f.priorities(t)
	stats := f.schedule(t, true)
	commits := f.tps[0].allocations(t, "main")
	runs := sizes.Of(t, "A4S_TEST_RUNS", 2)
	var sum standing
	gone, pushed := 0, 0
	for seed := range runs {
		began := time.Now()
		deleted := f.churn(t, rand.New(rand.NewPCG(uint64(seed), 23)), pods)
		s := f.settle(t, commits)
		if refused := f.nodes.refusals(); s.failed > 0 || len(refused) > 0 {
			f.show(t, commits)
			t.Fatalf("run %d: %d pods failed, their nodes rejected %v", seed, s.failed, refused)
		}
		away := pods - deleted - s.running - s.waiting // some were both deleted and pushed away
		t.Logf("run %d: %d run, %d wait, %d deleted, at least %d pushed away, in %s", seed, s.running, s.waiting,
			deleted, away, time.Since(began).Round(100*time.Millisecond))
		sum.running, sum.waiting = sum.running+s.running, sum.waiting+s.waiting
		gone, pushed = gone+deleted, pushed+max(0, away)
		f.clear(t, commits)
	}
	var writes, conflicts, refused, commit, spent int64
	for _, s := range stats {
		writes, conflicts, refused = writes+s.Writes.Load(), conflicts+s.Conflicts.Load(), refused+s.Refused.Load()
		commit, spent = commit+s.Commits.Load(), spent+s.Spent.Load()
	}
	t.Logf("%d runs: %d pods ran, %d waited, %d were deleted, %d pushed away, 0 failed; fullest node %d m of %d m; "+
		"%d commits of %v on average, %d writes, %d conflicts, %d refused", runs, sum.running, sum.waiting, gone,
		pushed,
		f.nodes.peak, f.nodes.has.cpu, commit, time.Duration(spent/max(commit, 1)).Round(10*time.Microsecond), writes,
		conflicts, refused)
	if conflicts == 0 || pushed == 0 || sum.waiting == 0 {
		t.Error("the partitions never met, nothing was pushed away or nothing was full: this run shows nothing")
	}
}

// TestWithoutCommitNodesReject makes sure that the test above can fail: schedulers that do
// not know of each other give out too much.
func TestWithoutCommitNodesReject(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	f := newFleet(t, 2, 8, room{cpu: 4000, pods: 110})
	f.schedule(t, false)
	const pods = 48
	inParallel(t, pods, func(ctx context.Context, i int) error {
		_, err := f.tps[i%2].admin.CoreV1().Pods("default").Create(ctx, pod(fmt.Sprintf("p%d", i), 1000),
			metav1.CreateOptions{})
		return err
	})
	if s := f.settle(t, nil); s.failed == 0 {
		t.Error("nothing failed")
	} else {
		t.Logf("%d of %d pods failed without commit", s.failed, pods)
	}
}
