package resourcepartitions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/controlplane/scheduler"
	"github.com/a4s-io/a4s/server/partition/allocations"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
	"github.com/a4s-io/a4s/server/partition/shares"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// runsVariable is how many random runs there are.
const runsVariable = "A4S_TEST_RUNS"

// schedule runs the scheduler of a tenant partition, which commits if committed is set.
func schedule(t *testing.T, tp *plane, local string, rps []*plane, committed bool) *shares.Stats {
	t.Helper()
	file, stats := filepath.Join(t.TempDir(), "scheduler.yaml"), &shares.Stats{}
	if err := kubeconfig.Write(kubeconfig.Options{Path: file, Server: tp.direct, CAFile: tp.files.ServerCA.Cert,
		CertFile: tp.files.Admin.Cert, KeyFile: tp.files.Admin.Key}); err != nil {
		t.Fatal(err)
	}
	var list []shares.ResourcePartition
	for _, rp := range rps {
		list = append(list, shares.ResourcePartition{Name: rp.name, Client: rp.allocations(t, tp.name)})
	}
	o := scheduler.Options{Kubeconfig: file, Pool: interning.New(), Log: logrus.WithField("component", "scheduler")}
	if committed {
		o.Plugins = func() []scheduler.Plugin {
			return []scheduler.Plugin{shares.Plugin(shares.Options{
				Partition: tp.name, Local: local, Stats: stats, Log: logrus.WithField("component", shares.Name),
				Partitions: func() ([]shares.ResourcePartition, <-chan struct{}) { return list, nil },
			})}
		}
	}
	run(t, scheduler.New(o))
	return stats
}

// kubelets are the nodes: they admit pods as kubelets do.
type kubelets struct {
	cpu      int64 // of each, in thousandths
	rejected atomic.Int64

	mu   sync.Mutex
	used map[string]map[types.UID]int64 // by node
	peak int64
}

// follow runs the pods of a tenant partition until the test ends.
func (k *kubelets) follow(t *testing.T, tp *plane) {
	t.Helper()
	sync := func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok {
			k.sync(t.Context(), tp.admin, pod)
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(tp.admin.CoreV1().RESTClient(), "pods", "",
			fields.OneTermNotEqualSelector("spec.nodeName", "")),
		ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: sync, UpdateFunc: func(_, obj any) { sync(obj) },
			DeleteFunc: func(obj any) {
				if pod, ok := obj.(*corev1.Pod); ok {
					k.end(pod)
				}
			}},
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		informer.RunWithContext(t.Context())
	}()
	t.Cleanup(func() { <-done })
}

func (k *kubelets) end(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.used[pod.Spec.NodeName], pod.UID)
}

func (k *kubelets) sync(ctx context.Context, c kubernetes.Interface, pod *corev1.Pod) {
	pods := c.CoreV1().Pods(pod.Namespace)
	if pod.DeletionTimestamp != nil {
		k.end(pod)
		now := int64(0)
		_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now,
			Preconditions: &metav1.Preconditions{UID: &pod.UID}}) // it may be gone
		return
	}
	if pod.Status.Phase != corev1.PodPending {
		return
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	status := map[string]any{"phase": "Running"}
	if !k.admit(pod, requests.Cpu().MilliValue()) {
		k.rejected.Add(1)
		status = map[string]any{"phase": "Failed", "reason": "OutOfcpu",
			"message": "Pod was rejected: Node didn't have enough resource: cpu"}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err == nil {
		_, _ = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
}

func (k *kubelets) admit(pod *corev1.Pod, cpu int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	node := k.used[pod.Spec.NodeName]
	if node == nil {
		node = map[types.UID]int64{}
		k.used[pod.Spec.NodeName] = node
	}
	if _, ok := node[pod.UID]; ok {
		return true
	}
	sum := cpu
	for _, other := range node {
		sum += other
	}
	if sum > k.cpu {
		return false
	}
	node[pod.UID], k.peak = cpu, max(k.peak, sum)
	return true
}

// pod asks for processors.
func pod(name string, cpu int64) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI)}}}}}}
}

// fleet is two tenant partitions over the nodes of one resource partition, which is the
// same server as the first.
type fleet struct {
	first, second *plane
	nodes         *kubelets
	names         []string
}

// newFleet makes it, with some nodes of some processors.
func newFleet(t *testing.T, nodes int, cpu int64) *fleet {
	t.Helper()
	if err := planes.Prepare(); err != nil {
		t.Fatal(err)
	}
	f := &fleet{first: startPlane(t, "main", 6443), second: startPlane(t, "tp2", 6445),
		nodes: &kubelets{cpu: cpu, used: map[string]map[types.UID]int64{}}}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		f.first.register(t, node(name, fmt.Sprintf("%dm", cpu)))
		f.names = append(f.names, name)
	}
	importInto(t, f.second, newSources(nodecopies.Source{Name: "main", Client: f.first.reader(t, "tp2")}))
	for _, name := range f.names {
		awaitCopy(t, f.first, f.second, name)
	}
	f.nodes.follow(t, f.first)
	f.nodes.follow(t, f.second)
	return f
}

// settle waits until each pod either runs, or waits because nothing has room for it, and
// that twice in a row. It returns how many do what.
func (f *fleet) settle(t *testing.T) (running, waiting, failed int) {
	t.Helper()
	last := ""
	planes.Eventually(t, "the pods to run or to wait", func(ctx context.Context) (bool, error) {
		running, waiting, failed = 0, 0, 0
		open := 0
		for _, p := range []*plane{f.first, f.second} {
			list, err := p.admin.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			for i := range list.Items {
				switch pod := &list.Items[i]; {
				case pod.Status.Phase == corev1.PodFailed:
					failed++
				case pod.Status.Phase == corev1.PodRunning:
					running++
				case pod.Spec.NodeName == "" && slices.ContainsFunc(pod.Status.Conditions,
					func(c corev1.PodCondition) bool {
						return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable &&
							strings.Contains(c.Message, "nodes are available") // not by PreBind, which tries again
					}):
					waiting++
				default:
					open++
				}
			}
		}
		now := fmt.Sprint(running, waiting, failed, open)
		same := now == last
		last = now
		return same && open == 0, nil
	})
	return running, waiting, failed
}

// clear deletes all pods and waits until no share is left.
func (f *fleet) clear(t *testing.T, shares *allocations.Client) {
	t.Helper()
	for _, p := range []*plane{f.first, f.second} {
		if err := p.admin.CoreV1().Pods("default").DeleteCollection(t.Context(), metav1.DeleteOptions{},
			metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	planes.Eventually(t, "no pods and no shares", func(ctx context.Context) (bool, error) {
		for _, p := range []*plane{f.first, f.second} {
			list, err := p.admin.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			if err != nil || len(list.Items) > 0 {
				return false, err
			}
		}
		if shares == nil {
			return true, nil
		}
		list, err := shares.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return !slices.ContainsFunc(list.Items, func(a allocations.NodeAllocation) bool {
			return len(a.Shares) > 0
		}), nil
	})
}

// createAll makes the pods of both partitions at the same time.
func (f *fleet) createAll(t *testing.T, cpus []int64) {
	inParallel(t, len(cpus), func(ctx context.Context, i int) error {
		p := []*plane{f.first, f.second}[i%2]
		_, err := p.admin.CoreV1().Pods("default").Create(ctx, pod(fmt.Sprintf("p%d", i), cpus[i]),
			metav1.CreateOptions{})
		return err
	})
}

// TestNothingIsOverCommitted: two schedulers give out the same nodes. In many random runs no
// pod comes to a node that has no room for it, and at the end no room is left that a
// waiting pod fits into.
func TestNothingIsOverCommitted(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	const nodes, cpu = 8, 4000
	f := newFleet(t, nodes, cpu)
	stats := []*shares.Stats{
		schedule(t, f.first, "main", []*plane{f.first}, true), schedule(t, f.second, "", []*plane{f.first}, true)}
	commits := f.first.allocations(t, "main")
	runs := 10
	if n, err := strconv.Atoi(os.Getenv(runsVariable)); err == nil {
		runs = n
	}
	ran, waited := 0, 0
	for seed := range runs {
		r := rand.New(rand.NewPCG(uint64(seed), 23))
		var cpus []int64
		for range 20 + r.IntN(40) {
			cpus = append(cpus, int64(100*(1+r.IntN(30))))
		}
		f.createAll(t, cpus)
		running, waiting, failed := f.settle(t)
		if failed > 0 || f.nodes.rejected.Load() > 0 {
			t.Fatalf("run %d: %d pods failed, %d were rejected by their nodes", seed, failed, f.nodes.rejected.Load())
		}
		if running+waiting != len(cpus) {
			t.Fatalf("run %d: %d run and %d wait of %d", seed, running, waiting, len(cpus))
		}
		f.nothingIsLeft(t, seed)
		ran, waited = ran+running, waited+waiting
		f.clear(t, commits)
	}
	var writes, conflicts, refused, commit, spent int64
	for _, s := range stats {
		writes, conflicts, refused = writes+s.Writes.Load(), conflicts+s.Conflicts.Load(), refused+s.Refused.Load()
		commit, spent = commit+s.Commits.Load(), spent+s.Spent.Load()
	}
	t.Logf("%d runs: %d pods ran, %d waited, 0 failed; fullest node %d m of %d m; %d commits of %v on average, "+
		"%d writes, %d conflicts, %d refused", runs, ran, waited, f.nodes.peak, cpu, commit,
		time.Duration(spent/max(commit, 1)).Round(10*time.Microsecond), writes, conflicts, refused)
	if conflicts == 0 {
		t.Error("the partitions never met: this run shows nothing")
	}
}

// nothingIsLeft compares the smallest pod that waits with the most room that is left.
func (f *fleet) nothingIsLeft(t *testing.T, seed int) {
	t.Helper()
	smallest := int64(0)
	for _, p := range []*plane{f.first, f.second} {
		list, err := p.admin.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range list.Items {
			asks := pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
			if pod.Spec.NodeName == "" && (smallest == 0 || asks < smallest) {
				smallest = asks
			}
		}
	}
	f.nodes.mu.Lock()
	defer f.nodes.mu.Unlock()
	for _, name := range f.names {
		left := f.nodes.cpu
		for _, cpu := range f.nodes.used[name] {
			left -= cpu
		}
		if smallest > 0 && left >= smallest {
			t.Errorf("run %d: node %s has %d m left, and a pod of %d m waits", seed, name, left, smallest)
		}
	}
}

// TestWithoutCommitNodesReject makes sure that the test above can fail: schedulers that do
// not know of each other give out too much.
func TestWithoutCommitNodesReject(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	f := newFleet(t, 8, 4000)
	schedule(t, f.first, "main", []*plane{f.first}, false)
	schedule(t, f.second, "", []*plane{f.first}, false)
	cpus := slices.Repeat([]int64{1000}, 48)
	f.createAll(t, cpus)
	if _, _, failed := f.settle(t); failed == 0 {
		t.Error("nothing failed")
	} else {
		t.Logf("%d of %d pods failed without commit", failed, len(cpus))
	}
}

// TestSharesFollowPods: what one partition has, the other sees, in all that it can see it
// by: resources, number of pods, ports of the node; and sees it go.
func TestSharesFollowPods(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	f := newFleet(t, 1, 4000)
	schedule(t, f.first, "main", []*plane{f.first}, true)
	schedule(t, f.second, "", []*plane{f.first}, true)
	commits := f.first.allocations(t, "main")
	share := func(what, partition string, check func(allocations.Share) bool) {
		t.Helper()
		planes.Eventually(t, what, func(ctx context.Context) (bool, error) {
			a, err := commits.Get(ctx, "n0", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return check(allocations.Share{}), nil
			}
			return err == nil && check(a.Of(partition)), err
		})
	}
	phase := func(p *plane, name string, want corev1.PodPhase) {
		t.Helper()
		planes.Eventually(t, fmt.Sprintf("pod %s of %s to be %s", name, p.name, want),
			func(ctx context.Context) (bool, error) {
				got, err := p.admin.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
				return err == nil && got.Status.Phase == want, err
			})
	}
	create := func(p *plane, pod *corev1.Pod) {
		t.Helper()
		if _, err := p.admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(p *plane, name string) {
		t.Helper()
		if err := p.admin.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waits := func(p *plane, name, why string) {
		t.Helper()
		planes.Eventually(t, fmt.Sprintf("pod %s of %s to wait: %s", name, p.name, why),
			func(ctx context.Context) (bool, error) {
				got, err := p.admin.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
				return err == nil && slices.ContainsFunc(got.Status.Conditions, func(c corev1.PodCondition) bool {
					return c.Type == corev1.PodScheduled && strings.Contains(c.Message, why)
				}), err
			})
	}
	part := func(name string, do func(t *testing.T)) {
		t.Helper()
		if !t.Run(name, do) {
			t.FailNow()
		}
	}
	part("resources", func(*testing.T) {
		create(f.first, pod("a", 3000))
		phase(f.first, "a", corev1.PodRunning)
		share("the share of the pod", "main", func(s allocations.Share) bool {
			return s.Pods == 1 && s.Requests.Cpu().MilliValue() == 3000
		})
		create(f.second, pod("b", 2000))
		waits(f.second, "b", "Insufficient cpu")
		began := time.Now()
		remove(f.first, "a")
		phase(f.second, "b", corev1.PodRunning)
		t.Logf("the room of one partition's pod ran another's after %v", time.Since(began).Round(time.Millisecond))
	})
	part("ports", func(*testing.T) {
		for _, p := range []*plane{f.second, f.first} {
			withPort := pod("port", 100)
			withPort.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
			create(p, withPort)
			if p == f.second {
				phase(p, "port", corev1.PodRunning)
			}
		}
		waits(f.first, "port", "free ports")
		remove(f.second, "port")
		phase(f.first, "port", corev1.PodRunning)
	})
	part("number of pods", func(*testing.T) {
		patch(t, f.first.admin, "n0", `{"status":{"allocatable":{"pods":"3"}}}`, "status")
		awaitCopy(t, f.first, f.second, "n0")
		create(f.second, pod("third", 1))
		phase(f.second, "third", corev1.PodRunning)
		create(f.first, pod("fourth", 1))
		waits(f.first, "fourth", "Too many pods")
		patch(t, f.first.admin, "n0", `{"status":{"allocatable":{"pods":"110"}}}`, "status")
		phase(f.first, "fourth", corev1.PodRunning)
	})
	part("a pod that no scheduler placed", func(*testing.T) {
		placed := pod("placed", 1500)
		placed.Spec.NodeName = "n0"
		create(f.second, placed)
		phase(f.second, "placed", corev1.PodRunning)
		share("its share", "tp2", func(s allocations.Share) bool { return s.Requests.Cpu().MilliValue() == 3501 })
		create(f.first, pod("more", 1000))
		waits(f.first, "more", "Insufficient cpu")
		remove(f.second, "placed")
		phase(f.first, "more", corev1.PodRunning)
	})
	part("partitions that are awaited", func(*testing.T) {
		planes.Eventually(t, "the waiting to be written", func(ctx context.Context) (bool, error) {
			a, err := commits.Get(ctx, "n0", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			// As a restore does, with a partition that is down.
			a.Awaited = []string{"main", "tp2", "tp3"}
			a.Shares = nil
			admin, err := allocations.NewClient(f.first.as(t, "system:admin", f.first.direct), nil)
			if err != nil {
				return false, err
			}
			_, err = admin.Update(ctx, a, metav1.UpdateOptions{})
			if apierrors.IsConflict(err) {
				return false, nil
			}
			return err == nil, err
		})
		create(f.first, pod("later", 1))
		waits(f.first, "later", "waited for tenant partitions")
		share("the share again", "tp2", func(s allocations.Share) bool {
			return s.Requests.Cpu().MilliValue() == 2001
		})
		share("the share again", "main", func(s allocations.Share) bool { return s.Pods == 3 })
		a, err := commits.Get(t.Context(), "n0", metav1.GetOptions{})
		if err != nil || !slices.Equal(a.Awaited, []string{"tp3"}) {
			t.Errorf("%+v, %v", a, err)
		}
		third := f.first.allocations(t, "tp3")
		planes.Eventually(t, "the third partition", func(ctx context.Context) (bool, error) {
			a, err := third.Get(ctx, "n0", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			a.Set(allocations.Share{Partition: "tp3"})
			_, err = third.Update(ctx, a, metav1.UpdateOptions{})
			return err == nil, nil
		})
		phase(f.first, "later", corev1.PodRunning)
	})
	part("a resource partition that does not answer", func(*testing.T) {
		f.first.link.set(true)
		create(f.second, pod("cut", 1))
		waits(f.second, "cut", "does not answer")
		f.first.link.set(false)
		phase(f.second, "cut", corev1.PodRunning)
	})
	part("the allocation goes, and comes again", func(*testing.T) {
		if err := commits.Delete(t.Context(), "n0", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		share("the share of the first", "main", func(s allocations.Share) bool { return s.Pods == 4 })
		share("the share of the second", "tp2", func(s allocations.Share) bool { return s.Pods == 3 })
	})
}

// TestRestoredResourcePartition: the shares of the snapshot are too low, and some nodes have
// none. Nothing is placed until each tenant partition has said what it has.
func TestRestoredResourcePartition(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	f := newFleet(t, 2, 4000)
	ctx := t.Context()
	schedule(t, f.second, "", []*plane{f.first}, true)
	third := f.first.allocations(t, "tp3")
	admin, err := allocations.NewClient(f.first.as(t, "system:admin", f.first.direct), nil)
	if err != nil {
		t.Fatal(err)
	}
	placed := pod("placed", 3000)
	placed.Spec.NodeName = "n0"
	create := func(p *plane, pod *corev1.Pod) {
		t.Helper()
		if _, err := p.admin.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create(f.second, placed)
	share := func(what string, check func(*allocations.NodeAllocation) bool) {
		t.Helper()
		planes.Eventually(t, what, func(ctx context.Context) (bool, error) {
			a, err := admin.Get(ctx, "n0", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil && check(a), err
		})
	}
	share("the share of the pod", func(a *allocations.NodeAllocation) bool { return a.Of("tp2").Pods == 1 })

	// As a server does that starts after a restore: nobody writes before all is awaited.
	f.first.closed.Store(true)
	if err := admin.Delete(ctx, "n0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	mine := &allocations.NodeAllocation{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}
	mine.Set(allocations.Share{Partition: "tp3", Pods: 1})
	if _, err := third.Create(ctx, mine, metav1.CreateOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a partition writes: %v", err)
	}
	if a, err := third.List(ctx, metav1.ListOptions{}); err != nil || len(a.Items) > 0 {
		t.Errorf("%+v, %v", a, err)
	}
	create(f.second, pod("waits", 2000))
	known := make(chan struct{})
	run(t, shares.Restored(shares.RestoredOptions{Nodes: f.first.admin, Client: admin,
		Log: logrus.WithField("component", shares.RestoredName),
		Tenants: func(ctx context.Context) ([]string, error) {
			select {
			case <-known:
				return []string{"tp2", "tp3"}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		Done: func() error {
			f.first.closed.Store(false)
			return nil
		}}))
	// tp2 says at once what it has; tp3 is away.
	close(known)
	share("the share of tp2 again", func(a *allocations.NodeAllocation) bool {
		requests := a.Of("tp2").Requests
		return requests.Cpu().MilliValue() == 3000 && slices.Equal(a.Awaited, []string{"tp3"})
	})
	planes.Eventually(t, "the pod to wait", func(ctx context.Context) (bool, error) {
		p, err := f.second.admin.CoreV1().Pods("default").Get(ctx, "waits", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && strings.Contains(c.Message, "waited for tenant partitions")
		}), err
	})
	// It has most of n1, so what fits nowhere does not run.
	for name, cpu := range map[string]int64{"n0": 0, "n1": 3500} {
		planes.Eventually(t, "the share of tp3", func(ctx context.Context) (bool, error) {
			a, err := third.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			own := allocations.Share{Partition: "tp3"}
			if cpu > 0 {
				own.Pods, own.Requests = 1, corev1.ResourceList{
					corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI)}
			}
			a.Set(own)
			_, err = third.Update(ctx, a, metav1.UpdateOptions{})
			return err == nil, nil
		})
	}
	planes.Eventually(t, "the pod to find no room", func(ctx context.Context) (bool, error) {
		p, err := f.second.admin.CoreV1().Pods("default").Get(ctx, "waits", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && strings.Contains(c.Message, "2 Insufficient cpu")
		}), err
	})
	if err := f.second.admin.CoreV1().Pods("default").Delete(ctx, "placed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	planes.Eventually(t, "the pod to run", func(ctx context.Context) (bool, error) {
		p, err := f.second.admin.CoreV1().Pods("default").Get(ctx, "waits", metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodRunning, err
	})
	if n := f.nodes.rejected.Load(); n > 0 {
		t.Errorf("%d pods were rejected", n)
	}
}
