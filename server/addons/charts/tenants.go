package charts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/addons/charts/confined"
	"github.com/a4s-io/a4s/server/addons/charts/reconcile"
)

const (
	// places are how many HelmCharts of tenants are looked at at once, each of another tenant.
	places = 4
	// maxWatched is in how many namespaces of a tenant Secrets are watched.
	maxWatched = 10
)

// limits are those of one look at a HelmChart of a tenant. Hooks are waited for in it.
func limits() confined.Limits {
	return confined.Limits{Memory: 512 << 20, Processor: 2 * time.Minute, Time: 10 * time.Minute, Answer: 64 << 10,
		Connections: 500}
}

// tenants looks at HelmCharts of tenants, each time in a confined process.
type tenants struct {
	Options
	ctx     context.Context
	names   *tenantapi.Client
	queue   queue
	turns   *turns
	watches *watches
	log     *logrus.Entry
}

func (o Options) newTenants(ctx context.Context) (*tenants, error) {
	t := &tenants{Options: o, ctx: ctx, queue: o.newQueue(), turns: newTurns(time.Now()), log: o.Log}
	own := rest.AddUserAgent(rest.CopyConfig(o.Config), Name)
	wide, err := metadata.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	own.Timeout = requestTimeout
	if t.names, err = tenantapi.NewClient(own, nil); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	t.watches = newWatches(ctx, wide, t.queue, func(namespace string) bool {
		return !space.IsSystem(space.OfNamespace(namespace))
	})
	return t, t.watches.charts()
}

// run looks at HelmCharts until the context ends.
func (t *tenants) run() {
	var running sync.WaitGroup
	running.Go(t.watches.lookAtEnds)
	running.Go(func() {
		for key, ended := t.queue.Get(); !ended; key, ended = t.queue.Get() {
			t.turns.add(space.OfNamespace(key.Namespace), key)
		}
	})
	for range places {
		running.Go(func() {
			for tenant, key, ok := t.turns.next(t.ctx); ok; tenant, key, ok = t.turns.next(t.ctx) {
				t.turn(tenant, key)
			}
		})
	}
	<-t.ctx.Done()
	t.queue.ShutDown()
	running.Wait()
	t.watches.wait()
}

// turn looks at a HelmChart.
func (t *tenants) turn(tenant string, key types.NamespacedName) {
	began := time.Now()
	next, err := t.look(tenant, key)
	now := time.Now()
	t.turns.done(tenant, now.Sub(began), now)
	if t.ctx.Err() == nil {
		if err != nil {
			t.log.WithError(err).Debugf("HelmChart %s", key)
		}
		requeue(t.queue, key, next, err)
	}
	t.queue.Done(key)
}

// look has a confined process look at a HelmChart, unless there is nothing to do.
func (t *tenants) look(tenant string, key types.NamespacedName) (reconcile.Next, error) {
	told := t.watches.told(key)
	if told.UID == "" {
		return reconcile.Done, t.watches.Secrets(key, nil)
	}
	of, err := t.names.Get(t.ctx, tenant, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return reconcile.Done, t.watches.Secrets(key, nil)
	} else if err != nil {
		return reconcile.Done, fmt.Errorf("reading the tenant: %w", err)
	}
	_, namespace := space.SplitNamespace(key.Namespace)
	inner := types.NamespacedName{Namespace: namespace, Name: key.Name}
	config := forTenant(t.Admin, tenant)
	r, err := inParent(t.ctx, config)
	if err != nil {
		return reconcile.Done, err
	}
	if shared, err := isShared(t.ctx, r.Objects); err != nil || !shared {
		return reconcile.Done, errors.Join(err, t.watches.Secrets(key, nil))
	}
	if of.DeletionTimestamp != nil {
		// What the release brought goes with the space, and nothing new can be made in it, such as hooks.
		return reconcile.Done, errors.Join(r.LetGo(t.ctx, inner), t.watches.Secrets(key, nil))
	}
	if err := t.watches.Configs(); err != nil {
		return reconcile.Done, err
	}
	out, err := t.confine(config, look{Space: tenant, Namespace: namespace, Name: key.Name, Told: told,
		Tries: t.queue.NumRequeues(key)})
	if t.ctx.Err() != nil {
		return reconcile.Done, t.ctx.Err()
	}
	if err != nil {
		return reconcile.Again, errors.Join(err, r.Report(t.ctx, inner, told.UID, err))
	}
	if out.Error != "" {
		t.log.Debugf("HelmChart %s: %s", key, out.Error)
		return reconcile.Again, nil
	}
	more, err := t.watch(tenant, key, out.Secrets)
	if err == nil && more && out.Next == reconcile.Done {
		return reconcile.Soon, nil // they may have changed after they were read
	}
	return out.Next, err
}

// inParent is what the server itself does about HelmCharts of a tenant: it reads nothing of a chart.
func inParent(ctx context.Context, config *rest.Config) (*reconcile.Reconciler, error) {
	config = rest.CopyConfig(config)
	config.Timeout = requestTimeout
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &reconcile.Reconciler{Objects: objects, Events: reconcile.DirectEvents(ctx, core)}, nil
}

// isShared reports whether a tenant's HelmCharts are those of the system's CRD. One that has the kind by a CRD of its
// own has a controller of its own, too.
func isShared(ctx context.Context, objects dynamic.Interface) (bool, error) {
	crd, err := objects.Resource(crdResource()).Get(ctx, reconcile.Charts().GroupResource().String(),
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("reading the CRD: %w", err)
	}
	of, _, _ := unstructured.NestedString(crd.Object, "metadata", "tenant") // "" if it is another thing
	return of == space.System, nil
}

// confine has a confined process do it.
func (t *tenants) confine(config *rest.Config, l look) (*looked, error) {
	input, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	g, err := newGate(config)
	if err != nil {
		return nil, err
	}
	defer g.close()
	process := confined.Process{Path: t.Program, Limits: limits(), Dial: g.dialer(t.Dialer(l.Space))}
	answer, err := process.Run(t.ctx, input)
	if err != nil {
		return nil, err
	}
	out := &looked{}
	if err := json.Unmarshal(answer, out); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return out, nil
}

// watch watches the Secrets that a HelmChart has values in, and reports whether some were not watched before.
func (t *tenants) watch(tenant string, key types.NamespacedName, secrets []string) (more bool, err error) {
	names := map[string]bool{}
	for _, name := range secrets {
		names[name] = true
	}
	in := t.watches.secretNamespaces(func(namespace string) bool { return space.OfNamespace(namespace) == tenant })
	if len(in) >= maxWatched && !slices.Contains(in, key.Namespace) {
		t.log.Debugf("Secrets in %s are not watched: tenant %s has as many watches as it may", key.Namespace, tenant)
		names = nil
	}
	before := t.watches.secretsOf(key)
	for name := range names {
		more = more || !before[name]
	}
	return more, t.watches.Secrets(key, names)
}
