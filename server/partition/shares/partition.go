package shares

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/server/partition/allocations"
)

const (
	// probePeriod is how often a resource partition is asked whether it is there, and
	// silence after how long without an answer it counts as away.
	probePeriod = time.Second
	silence     = 5 * time.Second
	// debounce is how long the accountant waits for more that happens on a node.
	debounce = time.Second
	// accountants is how many nodes are written at a time, lastRetry how long one waits
	// that could not be written.
	accountants = 4
	lastRetry   = 30 * time.Second
	// probe is the name of no node: names of nodes have no colon.
	probe = "a4s:probe"
)

// partition is a resource partition as this one sees it.
type partition struct {
	name   string
	client *allocations.Client
	shares *shares
	ctx    context.Context
	stop   func()
	queue  workqueue.TypedRateLimitingInterface[string]

	store      cache.Store
	controller cache.Controller
	// answered is when it last did, nil for never. What has passed since does not go by the clock
	// of the machine, which can be set.
	answered atomic.Pointer[time.Time]
	// refused says that a pod may wait because it did not answer, or was not known yet.
	refused atomic.Bool

	mu sync.Mutex
	// written is what this process knows from its own requests and the store may not
	// know yet.
	written map[string]written
	// unsure are nodes whose last write was not answered: it may have been done, or may
	// still be.
	unsure map[string]bool
}

// written is an allocation, or that there is none any more, after a version.
type written struct {
	allocation *allocations.NodeAllocation // nil if there is none
	after      string                      // the version in the store that is older
}

func newPartition(ctx context.Context, s *shares, rp ResourcePartition) *partition {
	p := &partition{name: rp.Name, client: rp.Client, shares: s, written: map[string]written{},
		unsure: map[string]bool{},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](debounce, lastRetry))}
	p.ctx, p.stop = context.WithCancel(ctx)
	p.refused.Store(true) // Filter may have refused its nodes until now
	changed := func(obj any) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			s.tell(name)
			p.account(name)
		}
	}
	p.store, p.controller = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return rp.Client.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return rp.Client.Watch(ctx, o)
			},
		},
		ObjectType: &allocations.NodeAllocation{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: changed, DeleteFunc: changed,
			UpdateFunc: func(_, obj any) { changed(obj) }},
	})
	return p
}

// run follows the partition until it is stopped.
func (p *partition) run() {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { p.controller.RunWithContext(p.ctx) })
	if cache.WaitForCacheSync(p.ctx.Done(), p.controller.HasSynced) {
		p.accountAll()
		for range accountants {
			running.Go(func() {
				for p.next() {
				}
			})
		}
		p.watchOver()
	}
	<-p.ctx.Done()
	p.queue.ShutDown()
}

// watchOver finds out whether the partition answers, until it is stopped.
func (p *partition) watchOver() {
	tick := time.NewTicker(probePeriod)
	defer tick.Stop()
	if r := p.shares.o.Health; r != nil {
		defer r.Clear(health.ResourcesUnanswered, p.name) // who follows it next finds out anew
		defer r.Clear(health.SharesAwaited, p.name)
	}
	last := p.controller.LastSyncResourceVersion()
	for {
		ctx, cancel := context.WithTimeout(p.ctx, probePeriod)
		_, err := p.client.Get(ctx, probe, metav1.GetOptions{})
		cancel()
		if err == nil || apierrors.IsNotFound(err) {
			p.answersNow()
		}
		now := p.controller.LastSyncResourceVersion()
		if newer(last, now) {
			// It was restored from a snapshot: what was written since is not there.
			p.mu.Lock()
			clear(p.written)
			p.mu.Unlock()
			p.accountAll()
		}
		last = now
		answers := p.answers()
		if answers && p.refused.Swap(false) {
			p.shares.waker.freed(p.name, allocations.Share{})
		}
		if r := p.shares.o.Health; r != nil {
			detail := ""
			if err != nil {
				detail = err.Error()
			}
			r.Report(!answers, health.ResourcesUnanswered, p.name, detail)
			awaited, node := p.shares.awaitedOn(p.name)
			r.Report(awaited > 0, health.SharesAwaited, p.name,
				fmt.Sprintf("%d nodes, %s for one: kubectl get nodeallocations there has their names", awaited, node))
		}
		select {
		case <-tick.C:
		case <-p.ctx.Done():
			return
		}
	}
}

// answers reports whether it has answered lately.
func (p *partition) answers() bool {
	at := p.answered.Load()
	return at != nil && time.Since(*at) < silence
}

// answersNow says that it does.
func (p *partition) answersNow() {
	now := time.Now()
	p.answered.Store(&now)
}

// newer reports whether version a is after b.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// allocation is what is known of a node, nil if there is none.
func (p *partition) allocation(node string) *allocations.NodeAllocation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest(node)
}

func (p *partition) latest(node string) *allocations.NodeAllocation {
	var stored *allocations.NodeAllocation
	if obj, ok, _ := p.store.GetByKey(node); ok {
		stored, _ = obj.(*allocations.NodeAllocation)
	}
	own, ok := p.written[node]
	switch {
	case !ok:
	case own.allocation != nil && (stored == nil && own.after == "" ||
		stored != nil && newer(own.allocation.ResourceVersion, stored.ResourceVersion)):
		return own.allocation
	case own.allocation == nil && stored != nil && stored.ResourceVersion == own.after:
		return nil
	default:
		delete(p.written, node) // the store has caught up
	}
	return stored
}

// knows takes note of what a request said.
func (p *partition) knows(node string, a *allocations.NodeAllocation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	after := ""
	if obj, ok, _ := p.store.GetByKey(node); ok {
		if stored, ok := obj.(*allocations.NodeAllocation); ok {
			after = stored.ResourceVersion
		}
	}
	p.written[node] = written{a, after}
}

// write creates or updates an allocation, at the version that it has.
func (p *partition) write(ctx context.Context, a *allocations.NodeAllocation, create bool) error {
	p.shares.o.Stats.Writes.Add(1)
	var got *allocations.NodeAllocation
	var err error
	if create {
		got, err = p.client.Create(ctx, a, metav1.CreateOptions{})
	} else {
		got, err = p.client.Update(ctx, a, metav1.UpdateOptions{})
	}
	p.mu.Lock()
	// What was done settles the write before it: that was for an older version.
	if p.unsure[a.Name] = err != nil && !judged(err); !p.unsure[a.Name] {
		delete(p.unsure, a.Name)
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	p.answersNow()
	p.knows(a.Name, got)
	return nil
}

// judged reports whether an error says that a write was not done, and none before it of the
// same node will be.
func judged(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// isUnsure reports whether a write of a node may have been done that is not known here.
func (p *partition) isUnsure(node string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unsure[node]
}

// read asks for an allocation.
func (p *partition) read(ctx context.Context, node string) error {
	got, err := p.client.Get(ctx, node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		p.knows(node, nil)
		return nil
	case err != nil:
		return fmt.Errorf("reading the allocation of node %s again: %w", node, err)
	}
	p.knows(node, got)
	return nil
}

// account has the accountant look at a node, with what else happens until then.
func (p *partition) account(node string) { p.queue.AddAfter(node, debounce) }

// accountAll looks at all nodes that this partition has pods on or has a share of.
func (p *partition) accountAll() {
	for _, name := range p.store.ListKeys() {
		p.account(name)
		p.shares.tell(name)
	}
	p.shares.mu.RLock()
	defer p.shares.mu.RUnlock()
	for name := range p.shares.onNode {
		p.account(name)
	}
}

// next is the accountant's work on one node.
func (p *partition) next() bool {
	name, end := p.queue.Get()
	if end {
		return false
	}
	defer p.queue.Done(name)
	node, err := p.shares.nodes.Get(name)
	if err != nil || p.shares.partitionOf(node) != p {
		p.queue.Forget(name)
		return true // it is no node of this partition
	}
	ctx, cancel := context.WithTimeout(p.ctx, commitTimeout)
	defer cancel()
	if err := p.shares.commit(ctx, name, nil); err != nil {
		if p.ctx.Err() == nil {
			p.shares.o.Log.WithError(err).WithField("node", name).Debug("cannot write the share; it is tried again")
		}
		p.queue.AddRateLimited(name)
		return true
	}
	p.queue.Forget(name)
	return true
}
