package nodecopies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// writers is how many copies are written at a time.
	writers = 8
	// firstRetry and lastRetry bound how long a copy that could not be written waits.
	firstRetry, lastRetry = 50 * time.Millisecond, 30 * time.Second
	// patience is Options.Patience, if nobody says.
	patience = 5 * time.Minute
	// requestTimeout bounds what is done about one copy.
	requestTimeout = 10 * time.Second
	// originals selects what a resource partition has itself: it may be a tenant partition,
	// too, and have copies.
	originals = "!" + Label
)

type object interface {
	metav1.Object
	runtime.Object
}

// kind is how objects of one kind are copied.
type kind[T object] struct {
	resource string
	// watch follows what a selector of labels selects.
	watch func(c kubernetes.Interface, selector string) cache.ListerWatcher
	empty T
	// want is the copy of an object of a resource partition.
	want func(T, string) T
	// digest is of what is material of an object.
	digest func(T) (digest, error)
	// there asks for an object that is no copy.
	there func(context.Context, kubernetes.Interface, string) error
	// write makes the copy what is wanted, whatever there is.
	write  func(context.Context, kubernetes.Interface, T) error
	remove func(context.Context, kubernetes.Interface, string, metav1.DeleteOptions) error
	// sameUID kinds keep the UID of the original.
	sameUID bool
}

// source is a resource partition that is followed.
type source[T object] struct {
	Source
	store  cache.Store
	synced func() bool
	stop   func()
	// deleted are what it said was deleted and has a copy still.
	deleted sync.Map
}

// seen is what is remembered of a copy, and of objects that are none.
type seen struct {
	metav1.ObjectMeta // name, UID and the label of the resource partition
	digest            digest
}

// copier keeps the copies of one kind.
type copier[T object] struct {
	kind kind[T]
	to   kubernetes.Interface
	log  *logrus.Entry
	// left says that a resource partition has left the cluster.
	left func(context.Context, string) (bool, error)
	// clash is told of names that several have, and of those that one has alone again.
	clash func(name string, with []string)
	queue workqueue.TypedRateLimitingInterface[string]

	copies cache.Store
	ready  func() bool // copies are known

	mu      sync.Mutex
	sources map[string]*source[T]
	// missing are copies whose original is not there, and since when that is known; they stay
	// for patience.
	missing  map[string]time.Time
	patience time.Duration
	running  sync.WaitGroup
}

func newCopier[T object](k kind[T], o Options, clash func(string, []string)) *copier[T] {
	return &copier[T]{kind: k, to: o.Client, log: o.Log, left: o.Left, clash: clash, sources: map[string]*source[T]{},
		missing: map[string]time.Time{}, patience: cmp.Or(o.Patience, patience),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry))}
}

// run keeps copies until the context ends.
func (c *copier[T]) run(ctx context.Context) {
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: c.kind.watch(c.to, ""), ObjectType: c.kind.empty, Transform: c.remember,
		Handler: c.handler(func(string) {}),
	})
	c.mu.Lock()
	c.copies, c.ready = store, controller.HasSynced
	c.mu.Unlock()
	c.running.Go(func() { controller.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) {
		for range writers {
			c.running.Go(func() {
				for c.next(ctx) {
				}
			})
		}
	}
	<-ctx.Done()
	c.replace(ctx, nil)
	c.queue.ShutDown()
	c.running.Wait()
}

// handler asks for a look at every name that something happens to. deleted is told before of
// what was deleted, and not of what is merely missing in a list.
func (c *copier[T]) handler(deleted func(name string)) cache.ResourceEventHandler {
	look := func(obj any) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			c.queue.Add(name)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, obj any) { look(obj) },
		DeleteFunc: func(obj any) {
			if o, ok := obj.(metav1.Object); ok {
				deleted(o.GetName())
			}
			look(obj)
		}}
}

// remember reduces a copy to what is compared.
func (c *copier[T]) remember(obj any) (any, error) {
	o, ok := obj.(T)
	if !ok {
		return obj, nil // it is reduced already
	}
	d, err := c.kind.digest(o)
	if err != nil {
		return nil, err
	}
	s := &seen{digest: d, ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), UID: o.GetUID(),
		ResourceVersion: o.GetResourceVersion()}}
	if partition := o.GetLabels()[Label]; partition != "" {
		s.Labels = map[string]string{Label: partition}
	}
	return s, nil
}

// follow replaces the set of resource partitions.
func (c *copier[T]) follow(ctx context.Context, sources []Source) {
	c.replace(ctx, sources)
	c.lookAt(func(s *seen) bool {
		of := s.Labels[Label]
		return of != "" && !slices.ContainsFunc(sources, func(n Source) bool { return n.Name == of })
	})
}

func (c *copier[T]) replace(ctx context.Context, sources []Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, s := range c.sources {
		i := slices.IndexFunc(sources, func(n Source) bool { return n.Name == name && n.Client == s.Client })
		if i < 0 {
			s.stop()
			delete(c.sources, name)
		}
	}
	for _, s := range sources {
		if c.sources[s.Name] != nil {
			continue
		}
		one := &source[T]{Source: s}
		store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: c.kind.watch(s.Client, originals), ObjectType: c.kind.empty, Transform: slim[T],
			Handler: c.handler(func(name string) { one.deleted.Store(name, true) }),
		})
		ctx, stop := context.WithCancel(ctx)
		one.store, one.synced, one.stop = store, controller.HasSynced, stop
		c.sources[s.Name] = one
		c.running.Go(func() {
			controller.RunWithContext(ctx)
		})
		c.running.Go(func() {
			// Names that it has no more have no event.
			if cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) {
				c.lookAt(func(*seen) bool { return true })
			}
		})
	}
}

// behind says of which resource partitions not all objects have a copy. A name that another
// one has is no matter of time.
func (c *copier[T]) behind() map[string]string {
	out := map[string]string{}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.copies == nil {
		return nil // it is about to start
	}
	for name, s := range c.sources {
		if !s.synced() {
			out[name] = "its " + c.kind.resource + " could not be listed yet"
			continue
		}
		missing, one := 0, ""
		for _, key := range s.store.ListKeys() {
			if _, ok, _ := c.copies.GetByKey(key); !ok {
				missing, one = missing+1, key
			}
		}
		if missing > 0 {
			out[name] = fmt.Sprintf("%d %s have no copy, %s for one", missing, c.kind.resource, one)
		}
	}
	return out
}

// slim drops what nobody copies.
func slim[T object](obj any) (any, error) {
	if o, ok := obj.(T); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// lookAt asks for a look at the copies, and nodes of this server, that are meant.
func (c *copier[T]) lookAt(meant func(*seen) bool) {
	c.mu.Lock()
	copies := c.copies
	c.mu.Unlock()
	if copies == nil {
		return // each is looked at when it is known
	}
	for _, obj := range copies.List() {
		if s, ok := obj.(*seen); ok && meant(s) {
			c.queue.Add(s.Name)
		}
	}
}

func (c *copier[T]) next(ctx context.Context) bool {
	name, end := c.queue.Get()
	if end {
		return false
	}
	defer c.queue.Done(name)
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := c.look(limited, name); err != nil {
		if ctx.Err() == nil {
			c.log.WithError(err).WithField(strings.TrimSuffix(c.kind.resource, "s"), name).
				Info("cannot write a copy; it is tried again")
		}
		c.queue.AddRateLimited(name)
		return true
	}
	c.queue.Forget(name)
	return true
}

// look makes the copy of a name what it has to be.
func (c *copier[T]) look(ctx context.Context, name string) error {
	have, owner, others := c.whose(name)
	if have != nil && owner == nil {
		if of := have.Labels[Label]; of != "" {
			left, err := c.left(ctx, of)
			if err != nil {
				return err
			}
			if left {
				return c.delete(ctx, have) // its event brings the next one who has the name
			}
		}
		// It is a node of this server, or of a resource partition that is not known or
		// has not been asked yet.
		c.clash(name, others)
		return nil
	}
	if owner != nil && have != nil {
		if _, there, _ := owner.store.GetByKey(name); !there {
			if err := c.gone(ctx, owner, have, len(others) > 0); err != nil {
				return err
			}
			// The event of the deletion brings the next one who has the name.
			c.clash(name, nil)
			return nil
		}
	}
	c.clash(name, others)
	if owner == nil {
		return nil
	}
	obj, there, err := owner.store.GetByKey(name)
	if err != nil || !there {
		return err
	}
	c.settled(owner, name)
	original, ok := obj.(T)
	if !ok {
		return fmt.Errorf("the original is a %T", obj)
	}
	want := c.kind.want(original, owner.Name)
	if have != nil && (!c.kind.sameUID || have.UID == want.GetUID()) {
		if d, err := c.kind.digest(want); err != nil || d == have.digest {
			return err
		}
	}
	err = c.kind.write(ctx, c.to, want)
	if errors.Is(err, errElsewhere) {
		return nil // the event of that one is on its way
	}
	return err
}

// whose says what is known of a name: the copy, the resource partition that it belongs to
// if that can be told, and the others that have the name.
func (c *copier[T]) whose(name string) (have *seen, owner *source[T], others []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if obj, ok, _ := c.copies.GetByKey(name); ok {
		have, _ = obj.(*seen)
	}
	var having []string
	for partition, s := range c.sources {
		if _, ok, _ := s.store.GetByKey(name); ok {
			having = append(having, partition)
		}
	}
	slices.Sort(having)
	partition := ""
	switch {
	case have != nil:
		partition = have.Labels[Label]
		if s := c.sources[partition]; s != nil && s.synced() {
			owner = s
		}
	case len(having) > 0:
		partition = having[0]
		owner = c.sources[partition]
	}
	others = slices.DeleteFunc(having, func(p string) bool { return p == partition })
	if len(others) > 0 {
		if partition == "" {
			partition = "this server"
		}
		others = append([]string{partition}, others...)
	}
	return have, owner, others
}

// gone deletes a copy whose original is not there, by the word of its resource partition
// itself: what a list began with may be older than the copy. Without a word of its deletion the
// copy stays for a while, unless the node is elsewhere.
func (c *copier[T]) gone(ctx context.Context, owner *source[T], have *seen, elsewhere bool) error {
	err := c.kind.there(ctx, owner.Client, have.Name)
	if err == nil {
		return errors.New("its resource partition has it, but did not list it yet")
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("asking its resource partition for it: %w", err)
	}
	if left := c.waits(owner, have.Name); left > 0 && !elsewhere {
		c.queue.AddAfter(have.Name, left)
		return nil
	}
	if err := c.delete(ctx, have); err != nil {
		return err
	}
	c.settled(owner, have.Name)
	return nil
}

// waits is for how long a copy stays. A resource partition that was restored from a snapshot
// does not know nodes that joined after it, which register again; pods run there.
func (c *copier[T]) waits(owner *source[T], name string) time.Duration {
	if _, ok := owner.deleted.Load(name); ok {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	since, ok := c.missing[name]
	if !ok {
		since = time.Now()
		c.missing[name] = since
		c.log.WithField("partition", owner.Name).Warnf("%s %s is missing there, and nobody said that it was deleted: "+
			"its copy stays for %s", strings.TrimSuffix(c.kind.resource, "s"), name, c.patience)
	}
	return time.Until(since.Add(c.patience))
}

// settled takes note that an original is there, or its copy gone.
func (c *copier[T]) settled(owner *source[T], name string) {
	owner.deleted.Delete(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.missing, name)
}

// delete deletes a copy, and nothing that came in its place.
func (c *copier[T]) delete(ctx context.Context, have *seen) error {
	uid := have.UID
	err := c.kind.remove(ctx, c.to, have.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the event of what is there instead is on its way
	}
	return err
}

// complete reports whether every resource partition was listed and has its copies.
func (c *copier[T]) complete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready == nil || !c.ready() {
		return false
	}
	for _, s := range c.sources {
		if !s.synced() {
			return false
		}
		for _, name := range s.store.ListKeys() {
			if _, ok, _ := c.copies.GetByKey(name); !ok {
				return false
			}
		}
	}
	return true
}
