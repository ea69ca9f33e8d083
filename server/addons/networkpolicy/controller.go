package networkpolicy

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// Name is the name of the component.
const Name = "network-policies"

const (
	// minGap is the shortest time between two rounds of resolving, and
	// gapFactor makes it longer where a round takes long.
	minGap    = 20 * time.Millisecond
	gapFactor = 4
)

// Controller knows what every node has to enforce.
type Controller struct {
	client kubernetes.Interface
	pool   *interning.Pool
	log    *logrus.Entry
	wake   chan struct{}

	mu       sync.Mutex
	spaces   map[string]*contents
	dirty    map[string]bool
	policies int                // in all spaces
	results  map[string]*result // nil while nothing was resolved yet
	off      bool               // there is no policy
	known    bool               // what nodes are told is the truth
	watches  map[*Watch]bool
}

// contents is what one space has. Its values are replaced, never changed.
type contents struct {
	pods       map[string]*pod
	namespaces map[string]labels.Set
	policies   map[string]*networkingv1.NetworkPolicy
}

// New returns the controller. It needs to list and watch network policies,
// namespaces and pods. log may be nil.
func New(client kubernetes.Interface, pool *interning.Pool, log *logrus.Entry) *Controller {
	if log == nil {
		log = logrus.WithField("component", Name)
	}
	c := &Controller{client: client, pool: pool, log: log, wake: make(chan struct{}, 1)}
	c.reset()
	return c
}

// reset forgets everything and ends all watches.
func (c *Controller) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watches {
		close(w.done)
	}
	c.spaces, c.dirty, c.results, c.watches = map[string]*contents{}, map[string]bool{},
		map[string]*result{}, map[*Watch]bool{}
	c.policies, c.off, c.known = 0, true, false
}

// Run works until ctx ends; then it returns nil. Watches end with it.
func (c *Controller) Run(ctx context.Context) error {
	c.reset()
	defer c.reset()
	ctx, cancel := context.WithCancel(ctx)
	transform := informers.WithTransform(trimmer(c.pool))
	policies := informers.NewSharedInformerFactoryWithOptions(c.client, 0, transform)
	rest := informers.NewSharedInformerFactoryWithOptions(c.client, 0, transform)
	defer policies.Shutdown()
	defer rest.Shutdown()
	defer cancel() // before Shutdown, which waits for the informers
	handler, err := policies.Networking().V1().NetworkPolicies().Informer().AddEventHandler(c.handler())
	if err != nil {
		return fmt.Errorf("watching network policies: %w", err)
	}
	policies.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return nil
	}
	if c.count() == 0 {
		c.publish(map[string]*result{}, true)
		// Most clusters are without; they need not hold every pod once more.
		for c.count() == 0 {
			select {
			case <-c.wake:
			case <-ctx.Done():
				return nil
			}
		}
	}
	var synced []cache.InformerSynced
	for _, informer := range []cache.SharedIndexInformer{rest.Core().V1().Pods().Informer(),
		rest.Core().V1().Namespaces().Informer()} {
		handler, err := informer.AddEventHandler(c.handler())
		if err != nil {
			return fmt.Errorf("watching pods and namespaces: %w", err)
		}
		synced = append(synced, handler.HasSynced)
	}
	rest.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	c.mark()
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return nil
		}
		began := time.Now()
		c.round()
		select {
		case <-time.After(max(minGap, gapFactor*time.Since(began))):
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *Controller) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.policies
}

func (c *Controller) mark() {
	select {
	case c.wake <- struct{}{}:
	default: // asked already
	}
}

// round resolves the spaces in which something changed.
func (c *Controller) round() {
	c.mu.Lock()
	off := c.policies == 0
	dirty := c.dirty
	if off || c.off {
		// After a time without policies everything is new.
		dirty = map[string]bool{}
		for name := range c.spaces {
			dirty[name] = !off
		}
	}
	c.dirty = map[string]bool{}
	var views []view
	fresh := map[string]*result{}
	for name, needed := range dirty {
		switch own := c.spaces[name]; {
		case !needed:
		case own == nil || len(own.pods)+len(own.namespaces)+len(own.policies) == 0:
			delete(c.spaces, name)
			fresh[name] = nil
		default:
			views = append(views, c.view(name))
		}
	}
	c.mu.Unlock()
	for _, v := range views {
		fresh[v.space] = resolve(v)
	}
	c.publish(fresh, off)
}

// view returns a view of one space. c.mu is held.
func (c *Controller) view(name string) view {
	v := view{space: name, namespaces: map[string]labels.Set{}}
	own := c.spaces[name]
	v.policies = slices.Collect(maps.Values(own.policies))
	v.subjects = slices.Collect(maps.Values(own.pods))
	if len(v.policies) == 0 {
		return v // nobody asks for peers
	}
	if name != space.System {
		v.peers, v.namespaces = v.subjects, maps.Clone(own.namespaces)
		return v
	}
	for _, other := range c.spaces {
		v.peers = slices.AppendSeq(v.peers, maps.Values(other.pods))
		maps.Copy(v.namespaces, other.namespaces)
	}
	return v
}

// publish hands results to the watches. Without policies, there are none.
func (c *Controller) publish(fresh map[string]*result, off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if off {
		c.results = map[string]*result{}
	}
	if off != c.off {
		c.log.Infof("network policies are in effect: %v", !off)
	}
	c.off, c.known = off, true
	maps.Copy(c.results, fresh)
	maps.DeleteFunc(c.results, func(_ string, r *result) bool { return r == nil })
	for w := range c.watches {
		for name := range fresh {
			w.dirty[name] = true
		}
		select {
		case w.wake <- struct{}{}:
		default: // it has not looked yet
		}
	}
}

func (c *Controller) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.observe(obj, false) },
		UpdateFunc: func(_, obj any) { c.observe(obj, false) },
		DeleteFunc: func(obj any) {
			if t, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = t.Obj
			}
			c.observe(obj, true)
		},
	}
}

// observe takes over an object, and asks for a round if that matters.
func (c *Controller) observe(obj any, deleted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var name string
	var changed bool
	switch o := obj.(type) {
	case *corev1.Pod:
		name = space.OfNamespace(o.Namespace)
		p := podOf(o)
		changed = put(c.contents(name).pods, o.Namespace+"/"+o.Name, p, deleted || p == nil)
	case *corev1.Namespace:
		name = space.OfNamespace(o.Name)
		changed = put(c.contents(name).namespaces, o.Name, labels.Set(o.Labels), deleted)
	case *networkingv1.NetworkPolicy:
		name = space.OfNamespace(o.Namespace)
		of := c.contents(name).policies
		c.policies -= len(of)
		changed = putPolicy(of, o, deleted)
		c.policies += len(of)
	default:
		return
	}
	if !changed {
		return
	}
	c.dirty[name] = true
	if system := c.spaces[space.System]; name != space.System && system != nil && len(system.policies) > 0 {
		c.dirty[space.System] = true // its policies may mean pods of every space
	}
	c.mark()
}

func (c *Controller) contents(name string) *contents {
	if c.spaces[name] == nil {
		c.spaces[name] = &contents{pods: map[string]*pod{}, namespaces: map[string]labels.Set{},
			policies: map[string]*networkingv1.NetworkPolicy{}}
	}
	return c.spaces[name]
}

// put reports whether something changed.
func put[T any](of map[string]T, key string, value T, deleted bool) bool {
	old, had := of[key]
	if deleted {
		delete(of, key)
		return had
	}
	of[key] = value
	return !had || !reflect.DeepEqual(old, value)
}

func putPolicy(of map[string]*networkingv1.NetworkPolicy, o *networkingv1.NetworkPolicy, deleted bool) bool {
	key := o.Namespace + "/" + o.Name
	if old := of[key]; old != nil && !deleted && reflect.DeepEqual(old.Spec, o.Spec) {
		return false
	}
	return put(of, key, o, deleted)
}
