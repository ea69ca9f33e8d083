package merge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/agent/origin"
)

// Options make Collections.
type Options struct {
	// NodeName is the name of the Node object.
	NodeName string
	// Dir is the directory of the checkpoint; empty keeps none.
	Dir string
	// Fresh says that no partition ever gave this node a pod.
	Fresh bool
	// Patience is how long a partition is waited for before what it said last
	// counts. Zero is three seconds.
	Patience time.Duration
	// Log is optional.
	Log *logrus.Entry
}

// Collections are the merged collections.
type Collections struct {
	o         Options
	files     *checkpoint
	placement *Placement
	ctx       context.Context // of the feeds
	stop      context.CancelFunc
	running   sync.WaitGroup
	// listTimeout is how long one list of a partition may last.
	listTimeout time.Duration

	mu      sync.Mutex
	sets    map[schema.GroupVersionResource]*set
	used    map[*set]bool
	members map[string]*member
}

// member is a partition.
type member struct {
	origin.Partition
	isNew   bool
	sources map[*set]*source
	ends    map[*set]func() // ends the feed of a set
	ctx     context.Context // of its feeds
	stop    context.CancelFunc
	feeds   sync.WaitGroup
}

// New opens the checkpoint. Close must be called in the end.
func New(o Options) (*Collections, error) {
	if o.Log == nil {
		o.Log = logrus.WithField("component", "origin")
	}
	if o.Patience == 0 {
		o.Patience = 3 * time.Second
	}
	files, err := openCheckpoint(o.Dir, o.Fresh, o.Log)
	if err != nil {
		return nil, err
	}
	c := &Collections{o: o, files: files, placement: newPlacement(),
		sets: map[schema.GroupVersionResource]*set{}, used: map[*set]bool{}, members: map[string]*member{},
		listTimeout: listTimeout}
	c.ctx, c.stop = context.WithCancel(context.Background())
	base := firstVersion()
	for _, k := range kinds() {
		c.sets[k.resource] = newSet(k, base, c.placement, o.Log, c.files.mark)
	}
	c.used[c.sets[podsResource]] = true // they tell where tenants are, and have to be on disk
	c.running.Go(func() { c.files.run(c.ctx) })
	return c, nil
}

// Close ends all feeds and writes what is to be written.
func (c *Collections) Close() {
	c.mu.Lock()
	members := c.members
	c.members = map[string]*member{}
	c.mu.Unlock()
	for _, m := range members {
		m.stop()
		m.feeds.Wait()
	}
	c.stop()
	c.running.Wait()
}

// Placement says which partition a tenant is in.
func (c *Collections) Placement() *Placement { return c.placement }

// Alone is called while this node has one partition and its collections are not
// merged: what is on disk of them goes, for nobody keeps it up to date.
func (c *Collections) Alone(p origin.Partition) error {
	from := &source{name: p.Name}
	if err := c.files.keepOnly(map[string]bool{p.Name: true}); err != nil {
		return fmt.Errorf("checkpoint of partitions that have left: %w", err)
	}
	if err := c.files.blank(from); err != nil {
		return fmt.Errorf("checkpoint of partition %s: %w", p.Name, err)
	}
	return c.files.begun()
}

// Begin joins the partitions that there are in the beginning.
func (c *Collections) Begin(all []origin.Partition) error {
	names := map[string]bool{}
	for _, p := range all {
		names[p.Name] = true
	}
	if err := c.files.keepOnly(names); err != nil {
		c.o.Log.WithError(err).Error("the checkpoint of partitions that have left is still there")
	}
	var errs []error
	for _, p := range all {
		errs = append(errs, c.Join(p, false)) // without one of them its pods would end
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.files.begun()
}

// Join adds a partition. since says that it joined after this process began, so it
// has no pods here that are not known; the same is said of one that the checkpoint
// does not know.
func (c *Collections) Join(p origin.Partition, since bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &member{Partition: p, sources: map[*set]*source{}, ends: map[*set]func(){}}
	from := &source{name: p.Name}
	if err := c.files.ofAnother(from, p.Identity); err != nil {
		return fmt.Errorf("checkpoint of another partition %s: %w", p.Name, err)
	}
	m.isNew = c.files.isNew(from) || since && c.files.dir == ""
	var errs []error
	if err := c.files.open(from, c.sets[podsResource], m.isNew); err != nil {
		errs = append(errs, fmt.Errorf("checkpoint of partition %s: %w", p.Name, err))
	}
	errs = append(errs, c.files.identify(from, p.Identity))
	m.ctx, m.stop = context.WithCancel(c.ctx)
	c.members[p.Name] = m
	for s := range c.used {
		errs = append(errs, c.feed(s, m))
	}
	return errors.Join(append(errs, c.reopen())...)
}

// Identify takes note of the identity of a partition that joined before it was known.
func (c *Collections) Identify(p origin.Partition) error {
	return c.files.identify(&source{name: p.Name}, p.Identity)
}

// Leave removes a partition and all that it has.
func (c *Collections) Leave(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[name]
	if m == nil {
		return nil
	}
	delete(c.members, name)
	m.stop()
	m.feeds.Wait()
	for s, from := range m.sources {
		s.leave(from)
	}
	c.placement.forget(name)
	err := c.reopen()
	for _, from := range m.sources {
		if err := c.files.remove(from); err != nil {
			return fmt.Errorf("checkpoint of partition %s: %w", name, err)
		}
	}
	return err
}

// feed begins to fill a set. The caller holds mu.
func (c *Collections) feed(s *set, m *member) error {
	from := &source{name: m.Name, home: m.Home}
	if m.isNew {
		from.state = known
	}
	m.sources[s] = from
	s.join(from) // without a client, too: there is no list without it
	return c.start(s, m, from)
}

// start follows what a partition has of a set. The caller holds mu.
func (c *Collections) start(s *set, m *member, from *source) error {
	client, err := newClient(m.Name, m.Transport, s.kind)
	if err != nil {
		return fmt.Errorf("client of partition %s: %w", m.Name, err)
	}
	f := &feed{set: s, from: from, client: client, selector: selectorFor(s.kind, c.o.NodeName), files: c.files,
		patience: c.o.Patience, listTimeout: c.listTimeout, log: c.o.Log}
	if s.resource == servicesResource {
		from.taken = c.taken(m)
	}
	ctx, cancel := context.WithCancel(m.ctx)
	done := make(chan struct{})
	m.ends[s] = func() {
		cancel()
		<-done
	}
	m.feeds.Go(func() {
		defer close(done)
		defer cancel()
		f.run(ctx)
	})
	return nil
}

// Has reports whether r asks for one of the merged collections.
func (c *Collections) Has(r *origin.Request) bool {
	s := c.sets[r.Resource]
	return r.Collects() && r.Namespace == "" && s != nil && !s.inner
}

// Holds reports whether objects of a resource are shown with versions of this node.
func (c *Collections) Holds(resource schema.GroupVersionResource) bool {
	s := c.sets[resource]
	return s != nil && !s.inner
}

// Serve answers r, for which Has is true.
func (c *Collections) Serve(r *origin.Request) (*http.Response, error) {
	if r.Resource == podsResource {
		selector, err := fields.ParseSelector(r.Options.FieldSelector)
		if node, ok := "", false; err == nil {
			if node, ok = selector.RequiresExactMatch(fieldNode); !ok || node != c.o.NodeName {
				return refuse(r, http.StatusForbidden, metav1.StatusReasonForbidden,
					fmt.Sprintf("a node has its own pods only: select them by %s=%s", fieldNode, c.o.NodeName))
			}
		}
	}
	s, err := c.use(r.Resource)
	if err != nil {
		return nil, err
	}
	return s.serve(r)
}

// use begins to fill a set that was not asked for yet.
func (c *Collections) use(resource schema.GroupVersionResource) (*set, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sets[resource]
	if c.used[s] {
		return s, nil
	}
	for _, m := range c.members {
		if err := c.feed(s, m); err != nil {
			return nil, err
		}
	}
	c.used[s] = true
	return s, nil
}

// ByName returns a cluster-scoped object that is shown, nil if there is none. It must
// not be changed. Its version is one of this node.
func (c *Collections) ByName(resource schema.GroupVersionResource, name string) runtime.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sets[resource]
	if s == nil || s.inner || !c.used[s] {
		return nil
	}
	return s.byName(name)
}

// Attached are the volumes that the partitions have attached to this node, each of
// which has a copy of the node with its own.
func (c *Collections) Attached() ([]corev1.AttachedVolume, error) {
	s, err := c.use(nodeResource)
	if err != nil {
		return nil, err
	}
	var out []corev1.AttachedVolume
	for _, obj := range s.allOf(c.o.NodeName) {
		node, ok := obj.(*corev1.Node)
		if !ok {
			continue
		}
		for _, v := range node.Status.VolumesAttached {
			if !slices.ContainsFunc(out, func(o corev1.AttachedVolume) bool { return o.Name == v.Name }) {
				out = append(out, v)
			}
		}
	}
	return out, nil
}
