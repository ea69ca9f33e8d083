package shares

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/server/partition/allocations"
)

func newShares() *shares {
	return &shares{o: Options{Partition: "tp1"}, pods: map[types.UID]*podShare{},
		onNode: map[string]map[types.UID]*podShare{}, partitions: map[string]*partition{},
		others: map[string]other{}, awaited: map[string]map[string]struct{}{},
		started: make(chan struct{}), waker: &waker{}}
}

func boundPod(uid, node string, cpu int64, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(cpu, resource.DecimalSI)}}}}},
		Status: corev1.PodStatus{Phase: phase}}
}

// TestAccounting: after any sequence of events, what is counted of a node is the sum over
// the pods that are bound and have not ended, and over those that were committed.
func TestAccounting(t *testing.T) {
	type model struct {
		node      string
		cpu       int64
		committed bool
		bound     bool
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 11))
		s := newShares()
		p := &plugin{s}
		want := map[string]*model{}
		for range 80 {
			uid, node, cpu := fmt.Sprintf("p%d", r.IntN(8)), fmt.Sprintf("n%d", r.IntN(3)), int64(r.IntN(5)*100)
			m := want[uid]
			switch r.IntN(6) {
			case 0: // the scheduler reserves a pod
				if m != nil {
					continue
				}
				p.Reserve(t.Context(), nil, boundPod(uid, "", cpu, corev1.PodPending), node)
				want[uid] = &model{node: node, cpu: cpu}
			case 1: // and commits it
				if m != nil && !m.bound {
					s.count(s.pods[types.UID(uid)])
					m.committed = true
				}
			case 2: // and takes it back
				if m != nil && !m.bound {
					p.Unreserve(t.Context(), nil, boundPod(uid, "", m.cpu, corev1.PodPending), m.node)
					delete(want, uid)
				}
			case 3: // a pod is seen on a node, perhaps resized
				if m != nil {
					node = m.node
				}
				s.podChanged(boundPod(uid, node, cpu, corev1.PodRunning))
				want[uid] = &model{node: node, cpu: cpu, committed: true, bound: true}
			case 4: // a pod ends
				if m != nil && m.bound {
					s.podChanged(boundPod(uid, m.node, m.cpu, corev1.PodSucceeded))
					delete(want, uid)
				}
			case 5: // a pod goes, as the informer tells it after a gap
				if m != nil && m.bound {
					s.podDeleted(cache.DeletedFinalStateUnknown{Key: uid,
						Obj: boundPod(uid, m.node, m.cpu, corev1.PodRunning)})
					delete(want, uid)
				}
			}
			for i := range 3 {
				node := fmt.Sprintf("n%d", i)
				var pods, sum int64
				for _, m := range want {
					if m.node == node && m.committed {
						pods, sum = pods+1, sum+m.cpu
					}
				}
				got := s.sum(node, nil)
				if got.Pods != pods || got.Requests.Cpu().MilliValue() != sum {
					t.Fatalf("seed %d: %s has %d pods of %d m, want %d of %d m", seed, node, got.Pods,
						got.Requests.Cpu().MilliValue(), pods, sum)
				}
			}
		}
	}
}

// TestLatest: what own requests said counts until the store knows it, and no longer.
func TestLatest(t *testing.T) {
	at := func(version string) *allocations.NodeAllocation {
		return &allocations.NodeAllocation{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: version}}
	}
	for name, tc := range map[string]struct {
		before, wrote, after *allocations.NodeAllocation // in the store, by a request, in the store later
		want                 string                      // "" for none
	}{
		"created":                {nil, at("5"), nil, "5"},
		"created and known":      {nil, at("5"), at("5"), "5"},
		"updated":                {at("5"), at("6"), at("5"), "6"},
		"updated by another too": {at("5"), at("6"), at("7"), "7"},
		"gone":                   {at("5"), nil, at("5"), ""},
		"gone and made again":    {at("5"), nil, at("9"), "9"},
		"updated and gone":       {at("5"), at("6"), nil, ""},
		"longer numbers":         {at("9"), at("10"), at("9"), "10"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &partition{store: cache.NewStore(cache.MetaNamespaceKeyFunc), written: map[string]written{}}
			put := func(a *allocations.NodeAllocation) {
				var err error
				if a != nil {
					err = p.store.Update(a)
				} else if obj, ok, _ := p.store.GetByKey("n"); ok {
					err = p.store.Delete(obj)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			put(tc.before)
			p.knows("n", tc.wrote)
			put(tc.after)
			got := ""
			if a := p.allocation("n"); a != nil {
				got = a.ResourceVersion
			}
			if got != tc.want {
				t.Errorf("version %q, want %q", got, tc.want)
			}
		})
	}
}

// TestStandIn: upstream sees of others all that it has to, and never preempts it.
func TestStandIn(t *testing.T) {
	share := allocations.Share{Pods: 3,
		Requests:  corev1.ResourceList{"cpu": resource.MustParse("1500m"), "example.com/gpu": resource.MustParse("2")},
		HostPorts: []allocations.HostPort{{Protocol: corev1.ProtocolUDP, IP: "192.0.2.1", Port: 53}}}
	pod := standIn("n", share)
	if got := shareOf(pod); !got.Equal(allocations.Share{Pods: 1, Requests: share.Requests,
		HostPorts: share.HostPorts}) {
		t.Errorf("it takes %+v", got)
	}
	if *pod.Spec.Priority != 1<<31-1 || pod.Spec.NodeName != "n" || pod.UID != standIn("n", allocations.Share{}).UID ||
		pod.UID == standIn("m", share).UID || len(pod.Labels) > 0 {
		t.Errorf("%+v", pod)
	}
}

// sharesAt are those of a process that has just begun: the API of partition rp is at url, and its
// watch shows what was stored of the node n.
func sharesAt(t *testing.T, url string, stored *allocations.NodeAllocation) (*shares, *partition) {
	t.Helper()
	client, err := allocations.NewClient(&rest.Config{Host: url,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{"cpu": resource.MustParse("1"), "pods": resource.MustParse("110")}}}
	f := informers.NewSharedInformerFactory(fake.NewClientset(node), 0)
	s := newShares()
	s.nodes = f.Core().V1().Nodes().Lister()
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	s.o.Local, s.o.Stats, s.o.Log = "rp", &Stats{}, logrus.NewEntry(logrus.StandardLogger())
	p := newPartition(t.Context(), s, ResourcePartition{Name: "rp", Client: client})
	t.Cleanup(p.queue.ShutDown)
	s.partitions["rp"] = p
	if err := p.store.Add(stored.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	return s, p
}
