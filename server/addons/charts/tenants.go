package charts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
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
	// enders are how many HelmCharts of deleted tenants are let go at once, and endTimeout is how long one may take.
	enders     = 2
	endTimeout = 10 * time.Second
	// stillThere is how often it is looked whether the tenant of a look is still the same.
	stillThere = 2 * time.Second
	// Secrets are watched in so many namespaces of a tenant and of all, and so many for one HelmChart and for all of a
	// tenant.
	maxNamespaces, maxAllNamespaces = 10, 1000
	maxSecrets, maxAllSecrets       = 50, 500
)

// limits are those of one look at a HelmChart of a tenant. Hooks are waited for in it.
func limits() confined.Limits {
	return confined.Limits{Memory: 512 << 20, Processor: 2 * time.Minute, Time: 10 * time.Minute, Answer: 64 << 10,
		Connections: 500}
}

// tenants looks at HelmCharts of tenants, each time in a confined process.
type tenants struct {
	Options
	ctx   context.Context
	names *tenantapi.Client
	queue queue
	// turns are those of looks, and ends those of HelmCharts that are being deleted: one of a deleted tenant waits for
	// no look.
	turns, ends *turns
	watches     *watches
	warned      warned
	much        tooMuch
}

func (o Options) newTenants(ctx context.Context) (*tenants, error) {
	t := &tenants{Options: o, ctx: ctx, queue: o.newQueue(),
		turns: newTurns(time.Now()), ends: newTurns(time.Now())}
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
			tenant := space.OfNamespace(key.Namespace)
			if t.watches.told(key).Ends {
				t.turns.drop(tenant, key)
				t.ends.add(tenant, key)
			} else {
				t.turns.add(tenant, key)
			}
			t.queue.Done(key) // what happens to it while it waits is seen as well
		}
	})
	for range enders {
		running.Go(func() { t.ends.each(t.ctx, t.end) })
	}
	for range places {
		running.Go(func() { t.turns.each(t.ctx, t.turn) })
	}
	<-t.ctx.Done()
	t.queue.ShutDown()
	running.Wait()
	t.watches.wait()
}

// end lets a HelmChart go whose tenant is being deleted, and has others wait for a look.
func (t *tenants) end(tenant string, key types.NamespacedName) {
	ctx, cancel := context.WithTimeout(t.ctx, endTimeout)
	defer cancel()
	of, err := t.names.Get(ctx, tenant, metav1.GetOptions{})
	if err != nil || of.DeletionTimestamp == nil {
		t.turns.add(tenant, key) // which sees what is wrong
		return
	}
	// What the release brought goes with the space, and nothing new can be made in it, such as hooks.
	err = t.letGo(ctx, of, key)
	t.again(ctx, key, reconcile.Done, errors.Join(err, t.watches.Secrets(key, nil)))
}

func (t *tenants) letGo(ctx context.Context, of *tenantapi.Tenant, key types.NamespacedName) error {
	a, err := t.access(of)
	if err != nil {
		return err
	}
	defer a.close()
	r, err := a.reconciler(ctx)
	if err != nil {
		return err
	}
	return r.LetGo(ctx, native(key))
}

// turn looks at a HelmChart.
func (t *tenants) turn(tenant string, key types.NamespacedName) {
	ctx, cancel := context.WithTimeout(t.ctx, limits().Time+2*requestTimeout)
	defer cancel()
	next, err := t.look(ctx, tenant, key)
	t.again(ctx, key, next, err)
}

// again has a HelmChart looked at again when that is due.
func (t *tenants) again(ctx context.Context, key types.NamespacedName, next reconcile.Next, err error) {
	if t.ctx.Err() != nil {
		return
	}
	if err != nil && ctx.Err() == nil {
		t.Log.WithError(err).Debugf("HelmChart %s", key)
	}
	requeue(t.queue, key, next, err)
}

// native is a HelmChart as its tenant calls it.
func native(key types.NamespacedName) types.NamespacedName {
	_, namespace := space.SplitNamespace(key.Namespace)
	return types.NamespacedName{Namespace: namespace, Name: key.Name}
}

// look has a confined process look at a HelmChart, unless there is nothing to do.
func (t *tenants) look(ctx context.Context, tenant string, key types.NamespacedName) (reconcile.Next, error) {
	told := t.watches.told(key)
	if told.UID == "" || told.Others {
		t.much.forget(key)
		return reconcile.Done, t.watches.Secrets(key, nil)
	}
	of, err := t.names.Get(ctx, tenant, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return reconcile.Later, t.watches.Secrets(key, nil)
	} else if err != nil {
		t.warned.warn(t.Log, err, "Tenants cannot be read, for their HelmCharts")
		return reconcile.Again, nil
	}
	if of.DeletionTimestamp != nil {
		return reconcile.Later, t.watches.Secrets(key, nil) // it is deleted with the space
	}
	a, err := t.access(of)
	if err != nil {
		t.warned.warn(t.Log, err, "HelmCharts of tenants cannot be looked at")
		return reconcile.Again, nil
	}
	defer a.close()
	r, err := a.reconciler(ctx)
	if err != nil {
		return reconcile.Again, err
	}
	if shared, err := isShared(ctx, r.Objects); err != nil {
		return reconcile.Again, err
	} else if !shared {
		return reconcile.Later, t.watches.Secrets(key, nil)
	}
	if err := t.watches.Configs(); err != nil {
		t.warned.warn(t.Log, err, "No change of a HelmChartConfig of a tenant is noticed yet")
	}
	tries := t.queue.NumRequeues(key)
	out, err := t.confine(ctx, of, a, look{Space: tenant, Namespace: native(key).Namespace, Name: key.Name, Told: told,
		Tries: tries})
	switch {
	case t.ctx.Err() != nil:
		return reconcile.Done, t.ctx.Err()
	case errors.Is(err, errGone):
		return reconcile.Later, nil
	case err != nil:
		why, failed := t.explain(err, key, told)
		if err := r.Report(ctx, native(key), told.UID, why, failed); err != nil {
			t.Log.WithError(err).Debugf("HelmChart %s", key) // the tenant may refuse it
		}
		if failed {
			return reconcile.Done, nil
		}
		return reconcile.Again, nil
	case out.Error != "" && tries > 0:
		return reconcile.Again, r.Report(ctx, native(key), told.UID, errors.New(out.Error), false)
	case out.Error != "":
		return reconcile.Again, nil // it may be for a moment
	}
	t.much.forget(key)
	more, err := t.watch(tenant, key, out.Secrets)
	if err == nil && more && out.Next == reconcile.Done {
		return reconcile.Soon, nil // they may have changed after they were read
	}
	return out.Next, err
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

// errGone is the end of the tenant of a look.
var errGone = errors.New("its tenant is deleted")

// confine has a confined process do it. It ends when its tenant is deleted.
func (t *tenants) confine(ctx context.Context, of *tenantapi.Tenant, a *access, l look) (*looked, error) {
	input, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	g, err := newGate(a)
	if err != nil {
		return nil, err
	}
	defer g.close()
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() {
		tick := time.NewTicker(stillThere)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now, err := t.names.Get(ctx, of.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) || err == nil && (now.UID != of.UID || now.DeletionTimestamp != nil) {
				cancel(errGone)
				return
			}
		}
	})
	process := confined.Process{Limits: limits(), Dial: g.dialer(t.Dialer(l.Space))}
	answer, err := process.Run(ctx, input)
	if cause := context.Cause(ctx); errors.Is(cause, errGone) {
		return nil, cause
	}
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
	secrets = secrets[:min(len(secrets), maxSecrets)]
	use := t.watches.useBeside(key, func(namespace string) bool { return space.OfNamespace(namespace) == tenant })
	if use.secrets+len(secrets) > maxAllSecrets ||
		!use.here && (use.namespaces >= maxNamespaces || use.allNamespaces >= maxAllNamespaces) {
		t.Log.Debugf("Secrets for HelmChart %s are not watched: tenant %s has as many watches as it may", key, tenant)
		secrets = nil
	}
	before, names := t.watches.secretsOf(key), map[string]bool{}
	for _, name := range secrets {
		names[name] = true
		more = more || !before[name]
	}
	return more, t.watches.Secrets(key, names)
}
