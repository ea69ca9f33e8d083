package shares

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/health"
	ourscheduler "github.com/a4s-io/a4s/server/controlplane/scheduler"
	"github.com/a4s-io/a4s/server/partition/allocations"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
)

// Name is the plugin's name in configurations of the scheduler.
const Name = "PartitionShares"

// ResourcePartition is one that has nodes of this tenant partition.
type ResourcePartition struct {
	Name string
	// Client writes its allocations, as a user that may change the share of this
	// partition.
	Client *allocations.Client
}

// Options configure the shares of a tenant partition.
type Options struct {
	// Partition is the tenant partition.
	Partition string
	// Local is the resource partition of nodes that are no copies, "" if there is none.
	Local string
	// Partitions returns the resource partitions, the local one included, and what is
	// closed when they change.
	Partitions func() ([]ResourcePartition, <-chan struct{})
	// Unknown says that this partition was restored from a snapshot: nodes still run pods that
	// it does not know, so no share is lowered for Lingers; then it is called. Nil is for others.
	Unknown func()
	// Health is told of resource partitions that do not answer; nil for nobody.
	Health *health.Registry
	// Stats counts; nil for nobody.
	Stats *Stats
	Log   *logrus.Entry
}

// Plugin makes the plugin for one run of the scheduler.
func Plugin(o Options) ourscheduler.Plugin {
	if o.Stats == nil {
		o.Stats = &Stats{}
	}
	s := &shares{
		o: o, pods: map[types.UID]*podShare{}, onNode: map[string]map[types.UID]*podShare{},
		partitions: map[string]*partition{}, others: map[string]other{},
		awaited: map[string]map[string]struct{}{}, started: make(chan struct{}),
	}
	s.lingers.Store(o.Unknown != nil)
	return ourscheduler.Plugin{
		Name:   Name,
		New:    func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &plugin{s}, nil },
		Attach: s.attach,
	}
}

// podShare is what a pod of this partition takes of a node.
type podShare struct {
	node  string
	share allocations.Share
	// counted pods are part of what was written, or will be.
	counted bool
	// bound pods are known by their spec, the others by Reserve.
	bound bool
}

// shares is the state of one run of the scheduler.
type shares struct {
	o     Options
	sched *scheduler.Scheduler
	// bindsFirst says that pods are committed in Bind; it is set before the scheduler runs.
	bindsFirst bool
	// lingers says that no share may be lowered.
	lingers atomic.Bool
	nodes   corelisters.NodeLister
	// started is closed when all pods that are bound are known.
	started chan struct{}
	// writing keeps writes of one node in order, by the hash of its name.
	writing [64]sync.Mutex

	mu         sync.RWMutex
	pods       map[types.UID]*podShare
	onNode     map[string]map[types.UID]*podShare
	partitions map[string]*partition

	// telling keeps what the cache of the scheduler is told in order; others is under mu, and so is
	// awaited: by resource partition, the nodes where others have to say what they have.
	telling sync.Mutex
	others  map[string]other
	awaited map[string]map[string]struct{}
	// waker is set before the scheduler runs.
	waker *waker
}

// attach connects the plugin with its scheduler, which does not run yet.
func (s *shares) attach(ctx context.Context, sched *scheduler.Scheduler, f informers.SharedInformerFactory) error {
	s.sched, s.bindsFirst, s.waker = sched, bindsFirst(sched), &waker{queue: sched.SchedulingQueue}
	nodes := f.Core().V1().Nodes()
	s.nodes = nodes.Lister()
	nodesKnown, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: s.nodeChanged, UpdateFunc: s.nodeUpdated, DeleteFunc: s.nodeChanged,
	})
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	podsKnown, err := f.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: s.podChanged, UpdateFunc: func(_, obj any) { s.podChanged(obj) }, DeleteFunc: s.podDeleted,
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), nodesKnown.HasSynced, podsKnown.HasSynced) {
			close(s.started)
			go s.linger(ctx)
			s.follow(ctx)
		}
	}()
	return nil
}

// linger lets shares be lowered when nodes have had time to end what this partition does not
// know.
func (s *shares) linger(ctx context.Context) {
	if !s.lingers.Load() || component.Sleep(ctx, Lingers) != nil {
		return
	}
	s.lingers.Store(false)
	s.o.Unknown()
	s.mu.RLock()
	all := slices.Collect(maps.Values(s.partitions))
	s.mu.RUnlock()
	for _, p := range all {
		p.accountAll()
	}
}

// follow follows the resource partitions until the context ends.
func (s *shares) follow(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		list, changed := s.o.Partitions()
		known := map[string]bool{}
		for _, rp := range list {
			known[rp.Name] = true
			s.mu.RLock()
			p := s.partitions[rp.Name]
			s.mu.RUnlock()
			if p != nil && p.client == rp.Client {
				continue
			}
			if p != nil {
				p.stop()
			}
			p = newPartition(ctx, s, rp)
			s.mu.Lock()
			s.partitions[rp.Name] = p
			s.mu.Unlock()
			running.Go(p.run)
		}
		s.mu.Lock()
		for name, p := range s.partitions {
			if !known[name] {
				p.stop()
				delete(s.partitions, name)
			}
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// partitionOf is the resource partition of a node, nil if it is not known.
func (s *shares) partitionOf(node *corev1.Node) *partition {
	name, ok := node.Labels[nodecopies.Label]
	if !ok {
		name = s.o.Local
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.partitions[name]
}

// lock is that of the writes of a node.
func (s *shares) lock(node string) *sync.Mutex {
	h := fnv.New32a()
	_, _ = h.Write([]byte(node)) // it cannot fail
	return &s.writing[h.Sum32()%uint32(len(s.writing))]
}

// shareOf is what a pod takes, counted as the scheduler does.
func shareOf(pod *corev1.Pod) allocations.Share {
	return allocations.OfPod(pod,
		resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true}))
}

// sum is what the counted pods of a node take, and one more.
func (s *shares) sum(node string, with *podShare) allocations.Share {
	total := allocations.Share{Partition: s.o.Partition}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range s.onNode[node] {
		if p.counted || p == with {
			total.Add(p.share)
		}
	}
	total.Normalize()
	return total
}

func (s *shares) nodeUpdated(before, now any) {
	a, ok := before.(*corev1.Node)
	b, ok2 := now.(*corev1.Node)
	if !ok || !ok2 || a.UID != b.UID || a.Labels[nodecopies.Label] != b.Labels[nodecopies.Label] {
		s.nodeChanged(now)
	}
}

func (s *shares) nodeChanged(obj any) {
	if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		s.tell(name)
		s.account(name)
	}
}

// podChanged takes note of a pod that is bound.
func (s *shares) podChanged(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		s.podDeleted(pod)
		return
	}
	share := shareOf(pod)
	s.mu.Lock()
	was := s.pods[pod.UID]
	known := was != nil && was.counted && was.node == pod.Spec.NodeName && was.share.Equal(share)
	s.put(pod.UID, &podShare{node: pod.Spec.NodeName, share: share, counted: true, bound: true})
	s.mu.Unlock()
	if !known {
		s.account(pod.Spec.NodeName)
	}
	if was != nil && was.node != pod.Spec.NodeName {
		s.account(was.node)
	}
}

func (s *shares) podDeleted(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	s.mu.Lock()
	was := s.pods[pod.UID]
	if was == nil || !was.bound {
		s.mu.Unlock()
		return // the scheduler takes back what it reserved
	}
	s.drop(pod.UID)
	s.mu.Unlock()
	s.account(was.node)
}

// put and drop change what is known of a pod. The caller holds mu.
func (s *shares) put(uid types.UID, p *podShare) {
	s.drop(uid)
	s.pods[uid] = p
	if s.onNode[p.node] == nil {
		s.onNode[p.node] = map[types.UID]*podShare{}
	}
	s.onNode[p.node][uid] = p
}

func (s *shares) drop(uid types.UID) {
	p := s.pods[uid]
	if p == nil {
		return
	}
	delete(s.pods, uid)
	delete(s.onNode[p.node], uid)
	if len(s.onNode[p.node]) == 0 {
		delete(s.onNode, p.node)
	}
}
