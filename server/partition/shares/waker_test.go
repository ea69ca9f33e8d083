package shares

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/a4s-io/a4s/server/partition/allocations"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
)

// woken is a queue that keeps with which pods it was told to look at those that wait, and when.
type woken struct {
	internalqueue.SchedulingQueue
	gone []*corev1.Pod
	at   []time.Duration
	from time.Time
}

func (w *woken) MoveAllToActiveOrBackoffQueue(
	_ klog.Logger, _ fwk.ClusterEvent, gone, _ any, _ internalqueue.PreEnqueueCheck,
) {
	pod, _ := gone.(*corev1.Pod) // the test looks at what it is
	w.gone, w.at = append(w.gone, pod), append(w.at, time.Since(w.from))
}

// deaf is a queue that nothing is told.
type deaf struct{ internalqueue.SchedulingQueue }

func (deaf) MoveAllToActiveOrBackoffQueue(klog.Logger, fwk.ClusterEvent, any, any, internalqueue.PreEnqueueCheck) {
}

// TestWakesAreGathered: what is freed alone wakes the pods that wait at once; what is freed soon after wakes
// them together, with all the room and all the ports.
func TestWakesAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := &woken{from: time.Now()}
		w := &waker{queue: queue}
		freed := func(i int) {
			w.freed(fmt.Sprintf("n%d", i), allocations.Share{Pods: 1,
				Requests:  corev1.ResourceList{"cpu": resource.MustParse("1")},
				HostPorts: []allocations.HostPort{{Protocol: corev1.ProtocolTCP, IP: "0.0.0.0", Port: int64(i)}}})
			synctest.Wait()
		}
		freed(1)
		for i := range 10 {
			time.Sleep(10 * time.Millisecond)
			freed(2 + i)
		}
		time.Sleep(time.Minute)
		freed(100)
		want := []time.Duration{0, wakePeriod, time.Minute + 100*time.Millisecond}
		if !slices.Equal(queue.at, want) {
			t.Fatalf("woken at %v, want %v", queue.at, want)
		}
		for i, share := range []allocations.Share{
			{Pods: 1, Requests: corev1.ResourceList{"cpu": resource.MustParse("1")},
				HostPorts: []allocations.HostPort{{Protocol: corev1.ProtocolTCP, IP: "0.0.0.0", Port: 1}}},
			{Pods: 1, Requests: corev1.ResourceList{"cpu": resource.MustParse("10")}},
			{Pods: 1, Requests: corev1.ResourceList{"cpu": resource.MustParse("1")},
				HostPorts: []allocations.HostPort{{Protocol: corev1.ProtocolTCP, IP: "0.0.0.0", Port: 100}}},
		} {
			for port := range 10 {
				if i == 1 {
					share.HostPorts = append(share.HostPorts,
						allocations.HostPort{Protocol: corev1.ProtocolTCP, IP: "0.0.0.0", Port: int64(2 + port)})
				}
			}
			if got := shareOf(queue.gone[i]); !got.Equal(share) {
				t.Errorf("%d: pods are told of %+v, want %+v", i, got, share)
			}
			if queue.gone[i].Spec.NodeName == "" {
				t.Errorf("%d: what went was on no node", i)
			}
		}
	})
}

// TestAwaitedOn: after any sequence of changes, the nodes that are said to be awaited are those whose allocation
// says so.
func TestAwaitedOn(t *testing.T) {
	f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	nodes := f.Core().V1().Nodes()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 46))
		s := newShares()
		s.waker.queue, s.nodes = deaf{}, nodes.Lister()
		s.o.Local = "rp0"
		for _, rp := range []string{"rp0", "rp1"} {
			s.partitions[rp] = &partition{name: rp, shares: s, written: map[string]written{},
				store: cache.NewStore(cache.MetaNamespaceKeyFunc)}
		}
		indexer := nodes.Informer().GetIndexer()
		for range 60 {
			name, rp := fmt.Sprintf("n%d", r.IntN(4)), fmt.Sprintf("rp%d", r.IntN(2))
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if rp != s.o.Local {
				node.Labels = map[string]string{nodecopies.Label: rp}
			}
			a := &allocations.NodeAllocation{ObjectMeta: metav1.ObjectMeta{Name: name}}
			var err error
			switch r.IntN(5) {
			case 0:
				err = indexer.Update(node)
			case 1:
				err = indexer.Delete(node)
			case 2:
				err = s.partitions[rp].store.Delete(a)
			case 3:
				a.Awaited = []string{"tp1", "tp2"}
				err = s.partitions[rp].store.Update(a)
			case 4:
				a.Awaited = []string{"tp1"} // this one
				err = s.partitions[rp].store.Update(a)
			}
			if err != nil {
				t.Fatal(err)
			}
			s.tell(name)
		}
		for rp, p := range s.partitions {
			var want []string
			for i := range 4 {
				name := fmt.Sprintf("n%d", i)
				if node, err := s.nodes.Get(name); err == nil && s.partitionOf(node) == p {
					if a := p.allocation(name); a != nil && slices.Contains(a.Awaited, "tp2") {
						want = append(want, name)
					}
				}
			}
			n, one := s.awaitedOn(rp)
			if n != len(want) || n > 0 && !slices.Contains(want, one) || n == 0 && one != "" {
				t.Fatalf("seed %d: %s: %d, such as %q, want %v", seed, rp, n, one, want)
			}
		}
	}
}

// BenchmarkWakes is what it costs for a second that others have less of a node 667 times, while 10,000 pods
// wait for a label that no node has.
func BenchmarkWakes(b *testing.B) {
	metrics.Register()
	for _, side := range []string{"each", "gathered"} {
		b.Run(side, func(b *testing.B) {
			queue := waitingPods(b, 10_000)
			w := &waker{queue: queue}
			share := allocations.Share{Pods: 1, Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}
			before := processorTime(b)
			for b.Loop() {
				tick := time.NewTicker(time.Second / 667)
				for range 667 {
					<-tick.C
					if side == "gathered" {
						w.freed("n", share)
						continue
					}
					queue.MoveAllToActiveOrBackoffQueue(klog.Background(), framework.EventAssignedPodDelete,
						standIn("n", share), nil, nil)
				}
				tick.Stop()
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// waitingPods is a queue with pods that were refused for what they select.
func waitingPods(b *testing.B, n int) internalqueue.SchedulingQueue {
	b.Helper()
	less := func(x, y fwk.QueuedEntityInfo) bool { return x.GetTimestamp().Before(y.GetTimestamp()) }
	hint := func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error) { return fwk.Queue, nil }
	queue := internalqueue.NewTestQueue(b.Context(), less, internalqueue.WithQueueingHintMapPerProfile(
		internalqueue.QueueingHintMapPerProfile{"": {framework.EventAssignedPodDelete: {
			{PluginName: names.NodeResourcesFit, QueueingHintFn: hint}}}}))
	b.Cleanup(queue.Close)
	for i := range n {
		pod := boundPod(fmt.Sprintf("p%d", i), "", 100, corev1.PodPending)
		queue.Add(context.Background(), pod)
		popped, err := queue.Pop(klog.Background())
		if err != nil {
			b.Fatal(err)
		}
		info, ok := popped.(*framework.QueuedPodInfo)
		if !ok {
			b.Fatalf("%T", popped)
		}
		info.UnschedulablePlugins.Insert(names.NodeAffinity)
		if err := queue.AddUnschedulablePodIfNotPresent(klog.Background(), info,
			queue.SchedulingCycle()); err != nil {
			b.Fatal(err)
		}
	}
	return queue
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
