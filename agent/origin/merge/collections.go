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

	disk disk // nil for that of the machine
}

// Collections are the merged collections.
//
// Locks are taken in this order: Collections.mu, then set.mu (of one set at a time) or
// checkpoint.mu, then those of Placement and of objectfile.Pending. A feed takes no Collections.mu:
// Leave and reopen wait under it until feeds have ended. The disk is used under Collections.mu and
// checkpoint.mu, never under set.mu, so lists and watches do not wait for it.
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
	// undone is what failed on disk and is to be done again.
	undone undone
}

// New opens the checkpoint. Close must be called in the end.
func New(o Options) (*Collections, error) {
	if o.Log == nil {
		o.Log = logrus.WithField("component", "origin")
	}
	if o.Patience == 0 {
		o.Patience = 3 * time.Second
	}
	if o.disk == nil {
		o.disk = osDisk{}
	}
	files, err := openCheckpoint(o.Dir, o.Fresh, o.disk, o.Log)
	if err != nil {
		return nil, err
	}
	c := &Collections{o: o, files: files, placement: newPlacement(),
		sets: map[schema.GroupVersionResource]*set{}, used: map[*set]bool{}, members: map[string]*member{},
		undone: undone{files: files, removals: map[string]bool{}}, listTimeout: listTimeout}
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
// which has a copy of the node with its own. They are those of all partitions: one that did not
// speak yet is waited for, as for a list; a pod waits for those of one of which nothing is known.
func (c *Collections) Attached(ctx context.Context) ([]corev1.AttachedVolume, error) {
	s, err := c.use(nodeResource)
	if err != nil {
		return nil, err
	}
	if _, _, err := s.await(ctx); err != nil && !errors.Is(err, errUnknown) {
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
