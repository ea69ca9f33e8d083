package ingress

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
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
)

const (
	// statusWorkers write statuses at a time. One writes claims: what is free is free for one.
	statusWorkers = 4
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

	// What follows is of the worker of claims.
	held    *holders
	version map[string]string // of what is stored, by tenant
	wrote   map[string]time.Time

	mu   sync.Mutex
	told map[string]map[types.UID]string // the last Events about the Ingresses of a space
}

// Leader returns the component that writes. One server runs it, beside its Controller.
func (c *Controller) Leader() component.Component {
	return component.Component{Name: Name + "-writer", Run: func(ctx context.Context, ready func()) error {
		ready()
		return c.lead(ctx)
	}}
}

func (c *Controller) lead(ctx context.Context) error {
	w := writer{c.Client, c.Log}
	if err := w.ensureClass(ctx); err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.Client.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	queue := func() workqueue.TypedRateLimitingInterface[string] {
		return workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry))
	}
	l := &Leader{writer: w, c: c, claims: queue(), statuses: queue(), version: map[string]string{},
		wrote:  map[string]time.Time{},
		told:   map[string]map[types.UID]string{},
		events: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Name})}
	if err := l.read(ctx); err != nil {
		return err
	}
	written := slices.Collect(maps.Keys(l.held.by)) // by now there may be no Ingress of some
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
	c.follow(l, written)
	defer c.follow(nil, nil)
	<-ctx.Done()
	return nil
}

// follow has a leader look at everything, and at what changes from now on.
func (c *Controller) follow(l *Leader, written []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = l
	for _, tenant := range written {
		l.look(tenant)
	}
	c.lookAtAll()
}

// lookAtAll has the leader look at every space. c.mu is held.
func (c *Controller) lookAtAll() {
	if c.leader == nil {
		return
	}
	for tenant := range c.results {
		c.leader.look(tenant)
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
	l.held = newHolders()
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
	next, changed := l.next(tenant, now)
	if !changed {
		delete(l.wrote, tenant)
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
		l.contested()
	}
	return nil
}

// next is what a space has from now on.
func (l *Leader) next(tenant string, now time.Time) (claims, bool) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if !l.c.known {
		return nil, false // nobody knows what it wants
	}
	var wants []string
	if r := l.c.results[tenant]; r != nil {
		wants = r.wants
	}
	return l.held.next(tenant, wants, l.c.policy, now)
}

// store writes down what a space has, and returns the version of it, "" for nothing.
func (l *Leader) store(ctx context.Context, tenant string, next claims) (string, error) {
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

// contested has the leader look at the spaces that wanted a host which was another's.
func (l *Leader) contested() {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	for tenant, r := range l.c.results {
		if r.contested {
			l.claims.Add(tenant)
		}
	}
}

// status writes the addresses and what is wrong into the Ingresses of a space.
func (l *Leader) status(ctx context.Context, tenant string) error {
	l.c.mu.Lock()
	r, addresses := l.c.results[tenant], l.c.nodes.addresses()
	var ingresses []*networkingv1.Ingress
	if of := l.c.spaces[tenant]; of != nil && r != nil && l.c.known {
		for _, key := range slices.Sorted(maps.Keys(*of)) {
			if ingress := (*of)[key]; isOf(l.c.classes, ingress) {
				ingresses = append(ingresses, ingress)
			}
		}
	}
	l.c.mu.Unlock()
	told := map[types.UID]string{}
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
		if err := l.writeStatus(ctx, ingress, wanted); err != nil {
			return err
		}
		said := fmt.Sprint(problems)
		if told[ingress.UID] = said; len(problems) > 0 && !l.knows(tenant, ingress.UID, said) {
			l.tell(ingress, problems)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told[tenant] = told; len(told) == 0 {
		delete(l.told, tenant)
	}
	return nil
}

// knows reports whether Events said that of an Ingress last.
func (l *Leader) knows(tenant string, uid types.UID, said string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told[tenant][uid] == said
}
