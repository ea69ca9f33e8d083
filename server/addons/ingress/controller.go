package ingress

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// Name is the name of the component.
const Name = "ingress"

// ControllerName is what IngressClasses of this controller have in spec.controller, and ClassName the one
// that there is.
const (
	ControllerName = "a4s.io/ingress"
	ClassName      = "a4s"
)

const (
	// minGap is the shortest time between two rounds of resolving, and gapFactor makes it longer where a
	// round takes long.
	minGap    = 20 * time.Millisecond
	gapFactor = 4
	// restFactor is how many times longer than it took to resolve a space others come first.
	restFactor = 10
	// ownersEvery is how often endpoints are compared with whose pods have their addresses.
	ownersEvery = time.Second
)

// Tenants know what spec.hosts and spec.scheduling of tenants say.
type Tenants interface {
	// FollowHosts calls changed with each tenant that has hosts, and again when they change; without hosts it has
	// none any more. It returns when all were told that there are; known is false if ctx ended before.
	FollowHosts(ctx context.Context, changed func(tenant string, hosts []string)) (stop func(), known bool)
	// KeptFrom reports whether a node with these labels is for others than a tenant alone, and KeptVersion changes
	// with what it says.
	KeptFrom(tenant string, node map[string]string) bool
	KeptVersion() uint64
}

// Options is what a Controller works with.
type Options struct {
	// Client has all rights, in all spaces. Writer is one for what is written, without a bound of requests a
	// second; Client if it is nil.
	Client, Writer kubernetes.Interface
	// Objects reads and writes those of the Gateway API, as Writer does; nil leaves these out.
	Objects dynamic.Interface
	// Pool is where informers share what they keep with others.
	Pool    *interning.Pool
	Tenants Tenants
	// Partition is that of the Ingresses. It has the nodes without a label that says otherwise.
	Partition string
	// Owner is whose an address of the pod network is, "" for nobody's, and Owned whether that of all is known;
	// nil means that it is.
	Owner func(netip.Addr) string
	Owned func() bool
	// Keep is how long a host stays with a space that names it no more, as while an Ingress is replaced; keptFor if
	// it is 0.
	Keep time.Duration
	Log  *logrus.Entry
}

// Controller knows where requests go.
type Controller struct {
	Options
	wake chan struct{}

	mu      sync.Mutex
	known   bool // what nodes are told is the truth
	classes map[string]bool
	spaces  map[string]*contents
	dirty   map[string]bool
	rests   map[string]time.Time // until when others come first
	now     string               // the space that is being resolved
	policy  *policy
	holders *holders
	results map[string]*result
	objects objects // what Ingresses depend on; empty while there is none
	nodes   takers
	told    published
	// gateways is what there is of the Gateway API.
	gateways gateways
	// runs is how often all was forgotten: what was seen for the time before comes too late.
	runs   int
	leader *Leader // nil while another server writes
}

// contents are the Ingresses of a space, whatever their class.
type contents map[string]*networkingv1.Ingress

// withDefaults fills in what may be left out.
func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	if o.Writer == nil {
		o.Writer = o.Client
	}
	if o.Owned == nil {
		o.Owned = func() bool { return true }
	}
	o.Keep = cmp.Or(o.Keep, keptFor)
	return o
}

// New returns the controller.
func New(o Options) *Controller {
	o = o.withDefaults()
	c := &Controller{Options: o, wake: make(chan struct{}, 1)}
	c.reset(nil)
	return c
}

// reset forgets everything and ends all watches. From now on gateways has those of the Gateway API, nil for none.
func (c *Controller) reset(gateways *gatewaySource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told.end()
	c.runs++
	c.known, c.classes, c.spaces, c.dirty = false, map[string]bool{}, map[string]*contents{}, map[string]bool{}
	c.policy, c.holders, c.results = newPolicy(), newHolders(), map[string]*result{}
	c.rests, c.now = map[string]time.Time{}, ""
	c.objects, c.nodes, c.told, c.gateways = objects{}, newTakers(c.Tenants), newPublished(), newGateways(gateways)
}

// mark asks for a round.
func (c *Controller) mark() {
	select {
	case c.wake <- struct{}{}:
	default: // asked already
	}
}

// isOf reports whether an Ingress is of one of the classes.
func isOf(classes map[string]bool, ingress *networkingv1.Ingress) bool {
	if ingress.DeletionTimestamp != nil {
		return false
	}
	if class := ingress.Spec.IngressClassName; class != nil {
		return classes[*class]
	}
	return classes[ingress.Annotations[annotationClass]]
}

// any reports whether there is an Ingress or a Gateway of this controller.
func (c *Controller) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.spaces {
		for _, ingress := range *of {
			if isOf(c.classes, ingress) {
				return true
			}
		}
	}
	return c.gateways.any()
}

// round resolves the spaces in which something changed, one after the other, and says how long others rest, 0 if
// there are none.
func (c *Controller) round() (again time.Duration) {
	if !c.Owned() {
		return ownersEvery // what is known of endpoints stays
	}
	dirty, again := c.take()
	for tenant := range dirty {
		began := time.Now()
		r := resolve(c.view(tenant))
		if !c.Owned() { // somewhere in between: nobody's may be somebody's
			c.postpone(dirty)
			return ownersEvery
		}
		delete(dirty, tenant)
		c.publish(tenant, r, time.Now().Add(restFactor*time.Since(began)))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		c.known = true
		c.lookAtAll()
	}
	return again
}

// postpone has spaces resolved later.
func (c *Controller) postpone(spaces map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = ""
	maps.Copy(c.dirty, spaces)
}

// take are the spaces to be resolved now.
func (c *Controller) take() (dirty map[string]bool, again time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dirty, c.dirty = c.dirty, map[string]bool{}
	for tenant := range dirty {
		wait := time.Until(c.rests[tenant])
		if wait <= 0 {
			delete(c.rests, tenant)
			continue
		}
		delete(dirty, tenant)
		if c.dirty[tenant] = true; again == 0 || wait < again {
			again = wait
		}
	}
	return dirty, again
}

// checkOwners has those spaces resolved again of whose endpoints one has become their pod's, or is no more: who
// writes an EndpointSlice by hand need not take out the address of a pod that is gone.
func (c *Controller) checkOwners() {
	if !c.Owned() {
		return
	}
	c.mu.Lock()
	results := maps.Clone(c.results) // each is not changed any more
	c.mu.Unlock()
	for tenant, r := range results {
		changed := r.strangers
		if !space.IsSystem(tenant) {
			for addr := range r.addresses {
				changed = changed || c.Owner(addr) != tenant
			}
		}
		if changed {
			c.touch(tenant)
		}
	}
}

// touch has a space resolved again.
func (c *Controller) touch(tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dirty[tenant] = true
	c.mark()
}

// repeat does something again and again until ctx ends.
func repeat(ctx context.Context, every time.Duration, do func()) {
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}

// view returns what a space is resolved from.
func (c *Controller) view(tenant string) view {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = tenant
	v := view{tenant: tenant, service: c.objects.service, endpoints: c.objects.endpoints,
		secret: c.objects.secret,
		refuse: func(host string) string {
			return c.locked(func() string { return c.policy.refuse(tenant, host) })
		},
		takenBy: func(host string) (who, by string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.holders.takenFrom(tenant, host, c.policy)
		},
		holds: func(host string) bool {
			return c.locked(func() string { return c.holders.holder(host) }) == tenant
		},
		owns: func(addr netip.Addr) bool { return c.Owner(addr) == tenant },
	}
	if was := c.results[tenant]; was != nil {
		v.before = was.parsed
	}
	v.routes = c.gateways.view(tenant, &c.mu)
	v.routes.addresses = c.nodes.spelled(tenant)
	if of := c.spaces[tenant]; of != nil {
		for _, ingress := range *of {
			if isOf(c.classes, ingress) {
				v.ingresses = append(v.ingresses, ingress)
			}
		}
	}
	return v
}

func (c *Controller) locked(f func() string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return f()
}

// publish hands what became of a space, which rests now, to the watches and to the leader.
func (c *Controller) publish(tenant string, r *result, rests time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.results[tenant]
	c.results[tenant], c.rests[tenant], c.now = r, rests, ""
	if len(r.wants) == 0 && len(r.problems) == 0 && r.gateway == nil {
		delete(c.results, tenant)
		delete(c.rests, tenant)
	}
	c.told.replace(was, r)
	if c.leader != nil {
		c.leader.look(tenant)
	}
}

// Run works until ctx ends; then it returns nil. Watches end with it, and when the kinds of the Gateway API come or
// go: nodes keep what they were told until they are told everything anew.
func (c *Controller) Run(ctx context.Context) error {
	defer c.reset(nil)
	if c.Objects == nil {
		return c.run(ctx, nil, false)
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, ok, err := watchKinds(ctx, c.Objects, &running)
	if err != nil {
		return fmt.Errorf("watching the CRDs of the Gateway API: %w", err)
	}
	if !ok {
		return nil
	}
	return c.followKinds(ctx, watch)
}

// run is Run while the same kinds are served. gateways may be nil; pending says that it will not be.
func (c *Controller) run(ctx context.Context, gateways *gatewaySource, pending bool) error {
	c.reset(gateways)
	c.mu.Lock()
	c.gateways.pending = pending
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	first, rest := factories(c.Options)
	defer first.Shutdown()
	defer rest.shutdown()
	defer cancel() // before Shutdown, which waits for the informers
	o := observer{c}
	synced, err := o.observeIngresses(first)
	if err != nil {
		return fmt.Errorf("watching Ingresses: %w", err)
	}
	ofGateways, stopGateways, err := o.observeGateways(gateways)
	defer stopGateways()
	if err != nil {
		return fmt.Errorf("watching Gateways: %w", err)
	}
	synced = append(synced, ofGateways...) // which are listed already
	first.StartWithContext(ctx)
	if !await(ctx, synced) {
		return nil
	}
	// Most clusters are without for a while; they need not hold what Ingresses depend on.
	for !c.any() {
		c.mu.Lock()
		c.known = true
		c.lookAtAll() // of those without there may be something written down
		c.mu.Unlock()
		select {
		case <-c.wake:
		case <-ctx.Done():
			return nil
		}
	}
	c.mu.Lock()
	c.known = false
	c.mu.Unlock()
	if synced, err = o.observeRest(rest); err != nil {
		return fmt.Errorf("watching what Ingresses depend on: %w", err)
	}
	rest.start(ctx)
	if !await(ctx, synced) {
		return nil
	}
	stop, ok := c.Tenants.FollowHosts(ctx, o.hosts)
	if !ok {
		return nil
	}
	defer stop()
	for !c.Owned() { // or tenants' endpoints would be nobody's
		if component.Sleep(ctx, minGap) != nil {
			return nil
		}
	}
	c.begin(rest)
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { repeat(ctx, ownersEvery, func() { c.checkOwners(); c.checkKept() }) })
	for {
		began := time.Now()
		again := c.round()
		select {
		case <-time.After(max(minGap, gapFactor*time.Since(began))):
		case <-ctx.Done():
			return nil
		}
		var rested <-chan time.Time
		if again > 0 {
			rested = time.After(again)
		}
		select {
		case <-c.wake:
		case <-rested:
		case <-ctx.Done():
			return nil
		}
	}
}

// begin has everything resolved.
func (c *Controller) begin(rest *restFactories) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects = rest.objects()
	if c.gateways.api != nil {
		c.gateways.namespaces = rest.namespaces()
	}
	for tenant := range c.spaces {
		c.dirty[tenant] = true
	}
	for tenant := range c.gateways.spaces {
		c.dirty[tenant] = true
	}
	c.told.look(c.nodes.choose(c.Partition))
	c.mark()
}
