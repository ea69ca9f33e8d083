package ingress

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/space"
)

const (
	// statusWorkers write statuses at a time. One writes claims: what is free is free for one.
	statusWorkers = 4
	// keptFor is how long a host stays with a space that names it no more.
	keptFor = 30 * time.Second
	// addressesGap is how long a change of nodes waits for others.
	addressesGap = time.Second
	// storedWithin is how long it takes at most to write down who has what: who leads after that begins with
	// what is written.
	storedWithin = 5 * time.Second
	// readGap is the shortest time between two times at which all of it is read.
	readGap = 5 * time.Second
	// claimsGap is the shortest time between two changes of what one space has.
	claimsGap             = time.Second
	firstRetry, lastRetry = 200 * time.Millisecond, time.Minute
)

// Leader is the server that writes: which space has a host, addresses in the status of Ingresses, Events, and
// the class.
type Leader struct {
	writer
	c                *Controller
	claims, statuses workqueue.TypedRateLimitingInterface[string]
	events           record.EventRecorder

	// written are the spaces that had something written down at the start: there may be no Ingress of some.
	written []string

	// What follows is of the worker of claims.
	held    *holders
	readAt  time.Time
	version map[string]string // of what is stored, by tenant
	wrote   map[string]time.Time
	left    map[string]map[string]time.Time // since when a host is not named any more, by tenant

	mu   sync.Mutex
	told map[string]map[types.UID]string // the last Events about the Ingresses of a space
	// classMade says that there is a GatewayClass, or was: who deletes it does not want it.
	classMade atomic.Bool
	// budgets are what is left for the status of Gateways and routes, by tenant.
	budgets map[string]*budget
}

// Leader returns the component that writes. One server runs it, beside its Controller.
func (c *Controller) Leader() component.Component {
	return component.Component{Name: Name + "-writer", Run: func(ctx context.Context, ready func()) error {
		ready()
		return c.lead(ctx)
	}}
}

func (c *Controller) lead(ctx context.Context) error {
	w := writer{c.Writer, c.Log}
	if err := w.ensureClass(ctx); err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.Writer.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	queue := func() workqueue.TypedRateLimitingInterface[string] {
		return workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry))
	}
	l := &Leader{writer: w, c: c, claims: queue(), statuses: queue(), wrote: map[string]time.Time{},
		left: map[string]map[string]time.Time{},
		told: map[string]map[types.UID]string{}, budgets: map[string]*budget{},
		events: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Name})}
	if err := l.read(ctx); err != nil {
		return err
	}
	l.written = slices.Collect(maps.Keys(l.held.by))
	var working sync.WaitGroup
	defer working.Wait()
	defer l.claims.ShutDown()
	defer l.statuses.ShutDown()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	working.Go(func() { l.work(ctx, l.claims, l.claim) })
	for range statusWorkers {
		working.Go(func() { l.work(ctx, l.statuses, l.status) })
	}
	c.follow(l)
	defer c.follow(nil)
	<-ctx.Done()
	return nil
}

// follow has a leader look at everything, and at what changes from now on.
func (c *Controller) follow(l *Leader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = l
	c.lookAtAll()
}

// lookAtAll has the leader look at every space, those that have hosts without an Ingress too. c.mu is held.
func (c *Controller) lookAtAll() {
	if c.leader == nil {
		return
	}
	for tenant := range c.results {
		c.leader.look(tenant)
	}
	for tenant := range c.holders.by {
		c.leader.look(tenant)
	}
	for _, tenant := range c.leader.written {
		c.leader.look(tenant)
	}
	for tenant := range c.gateways.spaces {
		c.leader.look(tenant)
	}
	if c.gateways.api != nil {
		c.leader.look(space.System) // which has the class
	}
}

// addressesChanged has the leader write the addresses of nodes everywhere, soon. c.mu is held.
func (c *Controller) addressesChanged() {
	if c.leader == nil {
		return
	}
	for tenant := range c.results {
		c.leader.statuses.AddAfter(tenant, addressesGap)
	}
}

// look has the leader write what became of a space.
func (l *Leader) look(tenant string) {
	l.claims.Add(tenant)
	l.statuses.Add(tenant)
}

// read takes over what is written down.
func (l *Leader) read(ctx context.Context) error {
	all, err := l.client.CoreV1().ConfigMaps(claimsNamespace).
		List(ctx, metav1.ListOptions{LabelSelector: claimsLabel})
	if err != nil {
		return fmt.Errorf("listing which spaces have hosts: %w", err)
	}
	l.held, l.version = newHolders(), map[string]string{}
	for i := range all.Items {
		if tenant, now := claimsIn(&all.Items[i]); tenant != "" {
			l.held.set(tenant, now)
			l.version[tenant] = all.Items[i].ResourceVersion
		}
	}
	return nil
}

func (l *Leader) work(
	ctx context.Context, queue workqueue.TypedRateLimitingInterface[string],
	do func(ctx context.Context, tenant string) error,
) {
	for {
		tenant, end := queue.Get()
		if end {
			return
		}
		switch err := do(ctx, tenant); {
		case err == nil:
			queue.Forget(tenant)
		case errors.Is(err, errLater):
			queue.AddRateLimited(tenant)
		case ctx.Err() == nil:
			l.log.WithError(err).WithField("tenant", tenant).
				Warn("Ingresses are not all up to date; this is tried again")
			queue.AddRateLimited(tenant)
		}
		queue.Done(tenant)
	}
}

// claim writes down which hosts a space has.
func (l *Leader) claim(ctx context.Context, tenant string) error {
	if wait := claimsGap - time.Since(l.wrote[tenant]); wait > 0 {
		l.claims.AddAfter(tenant, wait)
		return nil
	}
	now := time.Now()
	next, changed, seen := l.next(tenant, now)
	if !changed {
		delete(l.wrote, tenant)
		if seen {
			return nil
		}
		l.claims.AddAfter(tenant, claimsGap) // somebody else wrote, or the watch is late
		if now.Sub(l.readAt) < readGap {
			return nil
		}
		l.readAt = now
		if err := l.read(ctx); err != nil {
			return err
		}
		l.c.mu.Lock()
		defer l.c.mu.Unlock()
		l.c.lookAtAll() // others may get what it had
		return nil
	}
	version, err := l.store(ctx, tenant, next)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		if readErr := l.read(ctx); readErr != nil {
			return readErr
		}
	}
	if err != nil {
		return fmt.Errorf("writing down the hosts of a space: %w", err)
	}
	l.version[tenant], l.wrote[tenant] = version, now
	l.claims.AddAfter(tenant, claimsGap) // forgets wrote
	if freed := l.held.set(tenant, next); len(freed) > 0 {
		l.contested(freed)
	}
	return nil
}

// next is what a space has from now on. seen says that it has been seen to have what it has now.
func (l *Leader) next(tenant string, now time.Time) (out claims, changed, seen bool) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if !l.c.known || l.c.gateways.api == nil && !slices.Contains(slices.Collect(maps.Values(l.c.classes)), true) {
		return nil, false, true // nobody knows what it wants; or its class is being replaced
	}
	var wants []string
	if r := l.c.results[tenant]; r != nil {
		wants = r.wants
	}
	wants = append(slices.Clone(wants), l.lingering(tenant, wants, now)...)
	out, changed = l.held.next(tenant, wants, l.c.policy, now)
	watching := l.c.objects.services != nil
	return out, changed, !watching || maps.EqualFunc(l.held.by[tenant], l.c.holders.by[tenant], time.Time.Equal)
}

// lingering are the hosts that a space names no more since a moment. l.c.mu is held.
func (l *Leader) lingering(tenant string, wants []string, now time.Time) (out []string) {
	left, named := map[string]time.Time{}, map[string]bool{}
	for _, host := range wants {
		named[host] = true
	}
	for host := range l.held.by[tenant] {
		if named[host] || l.c.policy.refuse(tenant, host) != "" {
			continue
		}
		if l.c.gateways.pending { // a route that is not known yet may name it
			out = append(out, host)
			continue
		}
		since, ok := l.left[tenant][host]
		if !ok {
			since = now
		}
		left[host] = since
		if rest := l.c.Keep - now.Sub(since); rest > 0 {
			out = append(out, host)
			l.claims.AddAfter(tenant, rest+claimsGap) // each time: another look may have come before the last one
		}
	}
	if l.left[tenant] = left; len(left) == 0 {
		delete(l.left, tenant)
	}
	return out
}

// store writes down what a space has, and returns the version of it, "" for nothing.
func (l *Leader) store(ctx context.Context, tenant string, next claims) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, storedWithin)
	defer cancel()
	client, had := l.client.CoreV1().ConfigMaps(claimsNamespace), l.version[tenant]
	wanted := next.stored(tenant, had)
	var stored *corev1.ConfigMap
	var err error
	switch {
	case len(next) == 0:
		err := client.Delete(ctx, wanted.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{ResourceVersion: &had}})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return "", err
	case had == "":
		stored, err = client.Create(ctx, wanted, metav1.CreateOptions{})
	default:
		stored, err = client.Update(ctx, wanted, metav1.UpdateOptions{})
	}
	if err != nil {
		return "", err
	}
	return stored.ResourceVersion, nil
}

// contested has the leader look at the spaces that wanted one of the hosts, which was another's.
func (l *Leader) contested(freed []string) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	for tenant, r := range l.c.results {
		if r.waitsFor(freed) {
			l.claims.Add(tenant)
		}
	}
}

// status writes the addresses and what is wrong into the Ingresses of a space.
func (l *Leader) status(ctx context.Context, tenant string) error {
	l.c.mu.Lock()
	r, addresses := l.c.results[tenant], l.c.nodes.addresses(tenant)
	routed, known := l.c.gateways.objects(tenant), l.c.known
	if r == nil {
		r = &result{}
	}
	if r.gateway != nil && !slices.Equal(r.addressesOf, l.c.nodes.spelled(tenant)) {
		l.c.dirty[tenant] = true // the status of its Gateways has them
		l.c.mark()
	}
	var ingresses, left []*networkingv1.Ingress
	if of := l.c.spaces[tenant]; of != nil && l.c.known {
		for _, key := range slices.Sorted(maps.Keys(*of)) {
			switch ingress := (*of)[key]; {
			case isOf(l.c.classes, ingress):
				ingresses = append(ingresses, ingress)
			case l.gave(ingress.UID, tenant) && l.c.nodes.has(ingress.Status.LoadBalancer.Ingress):
				left = append(left, ingress)
			}
		}
	}
	l.c.mu.Unlock()
	told := map[types.UID]string{}
	var errs []error
	for _, ingress := range left { // for another controller, or for none
		err := l.writeStatus(ctx, ingress, nil)
		if errs = append(errs, err); err != nil {
			told[ingress.UID] = "" // it is tried again
		}
	}
	for _, ingress := range ingresses {
		key := ingressKey(ingress)
		wanted, problems := addresses, r.problems[key]
		switch {
		case !r.served[key]:
			wanted = nil
		case len(wanted) == 0:
			problems = append(slices.Clone(problems), problem{"NoAddress",
				"no node takes requests: none is ready, or Services of type LoadBalancer have port 80 or 443 of all"})
		}
		errs = append(errs, l.writeStatus(ctx, ingress, wanted))
		said := fmt.Sprint(problems)
		if told[ingress.UID] = said; len(problems) > 0 && !l.knows(tenant, ingress.UID, said) {
			l.tell(ingress, problems)
		}
	}
	l.remember(tenant, told)
	if err := errors.Join(errs...); err != nil || !known {
		return err
	}
	return l.gatewayStatus(ctx, tenant, routed, r)
}

// remember takes note of what was told of the Ingresses of a space.
func (l *Leader) remember(tenant string, told map[types.UID]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told[tenant] = told; len(told) == 0 {
		delete(l.told, tenant)
	}
}

// gave reports whether an Ingress was looked at as one of this class.
func (l *Leader) gave(uid types.UID, tenant string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, is := l.told[tenant][uid]
	return is
}

// knows reports whether Events said that of an Ingress last.
func (l *Leader) knows(tenant string, uid types.UID, said string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told[tenant][uid] == said
}
