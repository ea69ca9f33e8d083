package directory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

const (
	// askHome bounds how long home may take to say where a tenant is.
	askHome = 2 * time.Second
	// believed is for how long it is not asked again about a partition that left.
	believed = 5 * time.Second
)

// Options is what a Directory works with.
type Options struct {
	// Self is the partition of this server.
	Self string
	// File keeps what was known last, "" for none.
	File string
	// Home are addresses of servers of the home partition, "host:port", until it is known
	// which it has.
	Home []string
	Log  *logrus.Entry
}

// Directory is the copy. It is safe for concurrent use.
type Directory struct {
	news       // of partitions
	held       // what is known of them
	opts       Options
	partitions *copied[*partitionapi.Partition]
	placements *copied[*partitionapi.TenantPlacement]
	client     *partitionapi.PlacementClient
	registered *partitionapi.PartitionClient
	dirty      chan struct{}
	ended      atomic.Bool

	mu   sync.Mutex
	late map[string]*partitionapi.TenantPlacement // asked for before the watch told of them
	left map[string]leaving                       // what home said of partitions that are not there
}

// leaving is since when a partition is not there, and when home said so.
type leaving struct{ since, said time.Time }

// New makes a directory of what the file has.
func New(o Options) (*Directory, error) {
	d := &Directory{opts: o, dirty: make(chan struct{}, 1), late: map[string]*partitionapi.TenantPlacement{},
		news: news{turn: make(chan struct{})}, left: map[string]leaving{}}
	d.now.Store(&known{})
	d.partitions = &copied[*partitionapi.Partition]{changed: func(name string) {
		d.changed(name)
		d.learn()
		d.tell()
	}}
	d.placements = &copied[*partitionapi.TenantPlacement]{changed: d.changed}
	return d, d.load()
}

// Follow says how home is reached. It must be called before Run.
func (d *Directory) Follow(config *rest.Config) error {
	var err error
	if d.registered, err = partitionapi.NewPartitionClient(config, nil); err != nil {
		return err
	}
	if d.client, err = partitionapi.NewPlacementClient(config, nil); err != nil {
		return err
	}
	d.partitions.follow(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return d.registered.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return d.registered.Watch(ctx, o)
		},
	}, &partitionapi.Partition{})
	d.placements.follow(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return d.client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return d.client.Watch(ctx, o)
		},
	}, &partitionapi.TenantPlacement{})
	return nil
}

// Component follows home. It is ready at once: a partition works without home.
func (d *Directory) Component() component.Component {
	return component.Component{Name: "partition-directory", Run: func(ctx context.Context, ready func()) error {
		ready()
		var running sync.WaitGroup
		defer running.Wait()
		running.Go(func() { d.partitions.controller.RunWithContext(ctx) })
		running.Go(func() { d.placements.controller.RunWithContext(ctx) })
		running.Go(func() { d.save(ctx) })
		running.Go(func() {
			// What is read changes with the list, which may have nothing to tell of.
			for _, synced := range []cache.DoneChecker{
				d.partitions.controller.HasSyncedChecker(), d.placements.controller.HasSyncedChecker(),
			} {
				select {
				case <-synced.Done():
					d.learn()
					d.tell()
				case <-ctx.Done():
				}
			}
		})
		<-ctx.Done()
		d.ended.Store(true)
		d.tell()
		return nil
	}}
}

// Self is the partition of this server.
func (d *Directory) Self() string { return d.opts.Self }

// Several reports whether the cluster has more than one partition.
func (d *Directory) Several() bool {
	return d.opts.Self != partitionapi.Home || len(d.now.Load().all) > 1
}

// Synced reports whether the directory is a copy of home's, not only what was known last.
func (d *Directory) Synced() bool { return d.now.Load().live && d.placements.live() }

// Settled reports whether it is known if there are other partitions. A server of the home
// partition knows it by the list, the others have at least what they knew last.
func (d *Directory) Settled() bool {
	if d.opts.Self == partitionapi.Home {
		return d.now.Load().live
	}
	return d.Partition(d.opts.Self) != nil
}

// Left reports whether a partition has left the cluster, and since when: home has a record
// of its removal and, asked for it, no partition of the name. That one is not known here, or
// not at home, may mean that it is too new, or that home was restored.
func (d *Directory) Left(ctx context.Context, partition string) (since time.Time, left bool, err error) {
	k := d.now.Load()
	removed, recorded := k.removedName(partition)
	if !d.Synced() || partition == d.opts.Self || k.byName[partition] != nil || !recorded {
		return time.Time{}, false, nil
	}
	d.mu.Lock()
	asked, ok := d.left[partition]
	d.mu.Unlock()
	if ok && time.Since(asked.said) < believed {
		return asked.since, true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askHome)
	defer cancel()
	p, err := d.registered.Get(ctx, partition, metav1.GetOptions{})
	switch {
	case err == nil && p.Spec.Identity != removed.Identity:
		return time.Time{}, false, nil
	case err != nil && !apierrors.IsNotFound(err):
		return time.Time{}, false,
			fmt.Errorf("asking the home partition whether partition %s is there: %w", partition, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.left)
	d.left[partition] = leaving{since: removed.At.Time, said: time.Now()}
	return removed.At.Time, true, nil
}

// Known are all partitions, whether that is a copy of home's, and a channel that is closed
// when there may be others, or that changes. The channel is nil when the server stops, after
// which nothing changes.
func (d *Directory) Known() (all []*partitionapi.Partition, complete bool, changed <-chan struct{}) {
	changed = d.Changes() // before it is known to end: that closes it
	if d.ended.Load() {
		return nil, false, nil
	}
	k := d.now.Load()
	return k.all, k.live, changed
}

// Addresses are those of the servers of a partition.
func (d *Directory) Addresses(partition string) []string {
	var out []string
	if p := d.Partition(partition); p != nil {
		out = p.Addresses()
	}
	if partition == partitionapi.Home {
		for _, address := range d.opts.Home {
			if !slices.Contains(out, address) {
				out = append(out, address)
			}
		}
	}
	return out
}

// Placements are those of all tenants.
func (d *Directory) Placements() []*partitionapi.TenantPlacement { return d.placements.all() }

// Placement is that of a tenant, nil when none is known.
func (d *Directory) Placement(tenant string) *partitionapi.TenantPlacement {
	if p, ok := d.placements.get(tenant); ok {
		return p
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.late[tenant]
}

// Elsewhere is the partition that has a tenant, if that is known to be another one than
// that of this server, and the UID of its Tenant, "" until that is made.
func (d *Directory) Elsewhere(tenant string) (partition string, uid types.UID) {
	if !d.Several() {
		return "", ""
	}
	p := d.Placement(tenant)
	if p == nil || p.Spec.Partition == d.opts.Self {
		return "", ""
	}
	return p.Spec.Partition, p.Status.TenantUID
}

// Find asks home for the placement of a tenant that is not known. It is nil if there is
// none.
func (d *Directory) Find(ctx context.Context, tenant string) (*partitionapi.TenantPlacement, error) {
	if p := d.Placement(tenant); p != nil || d.client == nil || space.ValidateTenant(tenant) != nil {
		return p, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askHome)
	defer cancel()
	p, err := d.client.Get(ctx, tenant, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("asking the home partition where tenant %s is: %w", tenant, err)
	}
	d.Note(p)
	return p, nil
}

// Note takes note of a placement before the watch tells of it.
func (d *Directory) Note(p *partitionapi.TenantPlacement) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.late) > maxLate {
		clear(d.late)
	}
	d.late[p.Name] = p
	if _, ok := d.placements.get(p.Name); ok {
		delete(d.late, p.Name) // the watch was faster
	}
}

// maxLate bounds what is remembered beside the watch.
const maxLate = 1000

// changed is called with everything that the watch tells.
func (d *Directory) changed(name string) {
	d.mu.Lock()
	delete(d.late, name)
	d.mu.Unlock()
	select {
	case d.dirty <- struct{}{}:
	default:
	}
}

// copied is a watched list of one kind.
type copied[T metav1.Object] struct {
	changed    func(name string)
	store      cache.Store
	controller cache.Controller

	mu   sync.RWMutex
	last map[string]T // what was known last, until the list is there
}

func (c *copied[T]) follow(lw cache.ListerWatcher, example runtime.Object) {
	tell := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if o, ok := obj.(T); ok {
			c.changed(o.GetName())
		}
	}
	c.store, c.controller = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw, ObjectType: example,
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, obj any) { tell(obj) },
			DeleteFunc: tell},
		Transform: func(obj any) (any, error) {
			if o, ok := obj.(T); ok {
				o.SetManagedFields(nil)
			}
			return obj, nil
		},
	})
}

// live reports whether there is a list.
func (c *copied[T]) live() bool { return c.controller != nil && c.controller.HasSynced() }

func (c *copied[T]) get(name string) (found T, ok bool) {
	if !c.live() {
		c.mu.RLock()
		defer c.mu.RUnlock()
		found, ok = c.last[name]
		return found, ok
	}
	obj, ok, err := c.store.GetByKey(name)
	if err != nil || !ok {
		return found, false
	}
	found, ok = obj.(T)
	return found, ok
}

func (c *copied[T]) all() []T {
	var out []T
	if c.live() {
		for _, obj := range c.store.List() {
			if o, ok := obj.(T); ok {
				out = append(out, o)
			}
		}
	} else {
		c.mu.RLock()
		out = slices.Collect(maps.Values(c.last))
		c.mu.RUnlock()
	}
	slices.SortFunc(out, func(a, b T) int {
		switch {
		case a.GetName() < b.GetName():
			return -1
		case a.GetName() > b.GetName():
			return 1
		}
		return 0
	})
	return out
}
