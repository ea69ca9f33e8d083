package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/contents"
)

const (
	// parallel is how many requests there are at once for one space.
	parallel = 4
	// few objects of a namespace are deleted one by one, more by one request
	// that has to list them first.
	few = 8
	// pageSize is that of long lists.
	pageSize = 500
	// examples is of how many objects a report says what holds them.
	examples = 3
)

// terminate empties a space as far as it goes now, and lets its Tenant go when
// nothing is left.
func (c *controller) terminate(ctx context.Context, t *tenantapi.Tenant, log *logrus.Entry) (done bool, err error) {
	if c.tries.NumRequeues(t.Name) == 0 {
		log.Info("tenant is being deleted: emptying its space")
	}
	e := &emptying{controller: c, tenant: t.Name, marked: map[string]*corev1.Namespace{},
		deleted: t.DeletionTimestamp.Time}
	left, err := e.run(ctx)
	if err != nil {
		return false, errors.Join(err, c.complain(ctx, t, metav1.Condition{
			Type: tenantapi.SpaceEmpty, Status: metav1.ConditionFalse, Reason: "DeletionFailed",
			Message: said(err.Error()),
		}))
	}
	if len(left) > 0 {
		if c.tries.NumRequeues(t.Name) < patience {
			return false, nil
		}
		return false, c.report(ctx, t, metav1.Condition{
			Type: tenantapi.SpaceEmpty, Status: metav1.ConditionFalse, Reason: "ObjectsRemain",
			Message: said("waiting for the end of " + describe(left) + e.reasons(ctx, left) + e.note()),
		})
	}
	undefined, err := c.contents.Discard(ctx, t.Name)
	if err != nil {
		return false, err
	}
	if undefined > 0 {
		log.WithField("objects", undefined).
			Info("custom resources that nobody defines any more are deleted with their tenant")
	}
	t.Finalizers = slices.DeleteFunc(t.Finalizers, func(f string) bool { return f == tenantapi.Finalizer })
	if _, err := c.tenants.Update(ctx, t, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("letting the tenant go: %w", err)
	}
	log.Info("tenant is deleted: nothing of its space is left")
	return true, nil
}

// emptying is one try to empty a space.
type emptying struct {
	*controller
	tenant string
	// marked are the namespaces that take nothing new any more.
	marked map[string]*corev1.Namespace
	// own are the APIs of the space, made when they are asked for.
	own *apis
	// deleted is when the tenant was.
	deleted time.Time
	// operators says that the workloads are left for what is to be finalized.
	operators bool
	// slow says that custom resources took their time: the next tenant has its turn.
	slow bool
}

// api is how objects are deleted. Custom resources are what the space has under
// their names, which can be something else than what the system has.
func (e *emptying) api(ctx context.Context, r contents.Resource) (api, error) {
	if e.builtIn[r.Group] {
		return e.apis.of(ctx, r)
	}
	if e.own == nil {
		client, err := discovery.NewDiscoveryClientForConfigAndClient(e.inSpace(), e.http)
		if err != nil {
			return api{}, fmt.Errorf("making a discovery client: %w", err)
		}
		e.own = &apis{client: client, ofTenant: true}
	}
	if found, err := e.own.ofStored(ctx, r); !errors.Is(err, errUnserved) {
		return found, err
	}
	return e.apis.ofStored(ctx, r)
}

// inSpace reaches the space by its native names.
func (e *emptying) inSpace() *restclient.Config {
	return tenantapi.InSpace(e.config, e.tenant)
}

// run deletes until nothing is left or what is left has to be waited for.
func (e *emptying) run(ctx context.Context) (left []contents.Resource, err error) {
	for before := int64(-1); ; {
		if left, err = e.contents.Contents(ctx, e.tenant); err != nil {
			return nil, err
		}
		now := int64(0)
		for _, r := range left {
			now += r.Count
		}
		if now == before || len(left) == 0 {
			return left, nil
		}
		before = now
		marked, err := e.step(ctx, left)
		switch {
		case err != nil:
			return left, err
		case e.slow:
			return e.contents.Contents(ctx, e.tenant)
		case marked:
			before = -1
		}
	}
}

// What goes when. Who could refuse or fail to answer goes before what they are
// asked about. What operators finalize comes next, see finalize.go. Pods go before
// what protects them and what they use, and those that would replace them go with
// them; without its CRD an instance of a custom resource could not be deleted.
const (
	hooks = iota
	workloads
	rest
	definitions
	namespaces
)

func turn(r schema.GroupResource) int {
	switch r {
	case schema.GroupResource{Resource: "namespaces"}:
		return namespaces
	case schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:
		return definitions
	case schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "replicationcontrollers"}:
		return workloads
	case schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}:
		return rest
	}
	switch r.Group {
	case "admissionregistration.k8s.io":
		return hooks
	case "apps", "batch":
		return workloads
	}
	return rest
}

// step deletes what can go now, of what is left. It reports whether there are
// namespaces that take nothing new since, so that the next look at them counts.
func (e *emptying) step(ctx context.Context, left []contents.Resource) (marked bool, err error) {
	var turns [namespaces + 1][]contents.Resource
	for _, r := range left {
		turns[turn(r.GroupResource)] = append(turns[turn(r.GroupResource)], r)
	}
	closed := slices.Collect(maps.Keys(e.marked))
	if err := e.delete(ctx, turns[hooks], nil); err != nil {
		return false, err
	}
	if e.operators, err = e.finalizing(ctx, left); err != nil || e.operators {
		return false, err
	}
	if marked, err = e.mark(ctx, turns[namespaces]); err != nil {
		return marked, err
	}
	defined := definedBy(turns[definitions])
	for _, t := range []int{workloads, rest, definitions} {
		if err := e.delete(ctx, turns[t], defined); err != nil {
			return marked, err
		}
		// A CRD that is deleted takes its instances with it, those too
		// that nothing else reaches, and waits for them.
		if slices.ContainsFunc(turns[t], func(r contents.Resource) bool { return !defined[r.GroupResource] }) {
			break
		}
	}
	return marked, e.finalize(ctx, closed, left)
}

// mark asks for the end of namespaces: then nothing new is made in them.
func (e *emptying) mark(ctx context.Context, resources []contents.Resource) (marked bool, err error) {
	var names []string
	for _, r := range resources {
		for _, o := range r.Objects {
			if e.marked[o.Name] == nil {
				names = append(names, o.Name)
			}
		}
	}
	var mu sync.Mutex
	err = inParallel(names, func(name string) error {
		answer, err := e.client.CoreV1().RESTClient().Delete().Resource("namespaces").Name(name).
			Body(inBackground()).Do(ctx).Get()
		if err := ignoreGone(err); err != nil {
			return fmt.Errorf("deleting the namespace %s: %w", name, err)
		}
		if ns, ok := answer.(*corev1.Namespace); ok && err == nil {
			mu.Lock()
			defer mu.Unlock()
			e.marked[name], marked = ns, true
		}
		return nil
	})
	return marked, err
}

// finalize lets closed namespaces go in which nothing is left. The cluster's
// own controller would, but waits for some seconds before it looks at one, and
// then looks at every resource.
func (e *emptying) finalize(ctx context.Context, closed []string, left []contents.Resource) error {
	used := map[string]bool{}
	for _, r := range left {
		if r.Namespaced && r.More {
			return nil // what is not seen may be anywhere
		}
		for _, o := range r.Objects {
			used[o.Namespace] = true
		}
	}
	closed = slices.DeleteFunc(closed, func(name string) bool {
		return used[name] || !slices.Contains(e.marked[name].Spec.Finalizers, corev1.FinalizerKubernetes)
	})
	if len(closed) == 0 {
		return nil
	}
	if elsewhere, err := e.apis.elsewhere(ctx); err != nil || elsewhere {
		return err
	}
	return inParallel(closed, func(name string) error {
		ns := e.marked[name]
		ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool {
			return f == corev1.FinalizerKubernetes
		})
		if _, err := e.client.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{}); ignoreGone(err) != nil {
			return fmt.Errorf("letting the namespace %s go: %w", name, err)
		}
		return nil
	})
}

// definedBy are the custom resources that CRDs define.
func definedBy(definitions []contents.Resource) map[schema.GroupResource]bool {
	out := map[schema.GroupResource]bool{}
	for _, r := range definitions {
		for _, o := range r.Objects {
			_, name := space.SplitClusterName(o.Name)
			if plural, group, ok := strings.Cut(name, "."); ok {
				out[schema.GroupResource{Group: group, Resource: plural}] = true
			}
		}
	}
	return out
}

// request is for the end of an object, or of all of a namespace, if it has no name.
type request struct {
	api
	contents.Object
}

// delete asks for the end of objects. Those that nothing serves go with their
// CRD, or are lost anyway.
func (e *emptying) delete(
	ctx context.Context, resources []contents.Resource, defined map[schema.GroupResource]bool,
) error {
	var requests, customs []request
	var errs []error
	for _, r := range resources {
		a, err := e.api(ctx, r)
		if errors.Is(err, errUnserved) {
			switch {
			case defined[r.GroupResource]:
				continue
			case e.tries.NumRequeues(e.tenant) >= patience: // not only not yet
				if err = e.contents.Drop(ctx, e.tenant, r); err == nil {
					continue
				}
			}
		}
		switch {
		case err != nil:
			errs = append(errs, err)
		case e.builtIn[r.Group]:
			requests = append(requests, requestsFor(a, r)...)
		default:
			customs = append(customs, requestsFor(a, r)...)
		}
	}
	errs = append(errs, inParallel(requests, func(r request) error { return e.send(ctx, r) }),
		e.deleteCustoms(ctx, customs))
	return errors.Join(errs...)
}

// requestsFor are the requests that delete objects of a resource.
func requestsFor(a api, r contents.Resource) (requests []request) {
	byNamespace := map[string]int{}
	for _, o := range r.Objects {
		byNamespace[o.Namespace]++
	}
	for _, o := range r.Objects {
		switch n := byNamespace[o.Namespace]; {
		case n == 0: // is asked for
		case n > few && a.collections:
			byNamespace[o.Namespace] = 0
			requests = append(requests, request{a, contents.Object{Namespace: o.Namespace}})
		default:
			requests = append(requests, request{a, o})
		}
	}
	return requests
}

func (e *emptying) send(ctx context.Context, r request) error {
	client, of := e.metadata.Resource(r.GroupVersionResource).Namespace(r.Namespace), r.GroupResource()
	if r.Name == "" {
		if err := client.DeleteCollection(ctx, *inBackground(), metav1.ListOptions{}); err != nil {
			return fmt.Errorf("deleting all %s in %s: %w", of, r.Namespace, err)
		}
		return nil
	}
	if err := client.Delete(ctx, r.Name, *inBackground()); ignoreGone(err) != nil {
		return fmt.Errorf("deleting %s %s: %w", of, r.Object, err)
	}
	return nil
}

func inBackground() *metav1.DeleteOptions {
	background := metav1.DeletePropagationBackground
	return &metav1.DeleteOptions{PropagationPolicy: &background}
}

// ignoreGone ignores what the next look at what is left tells better.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// inParallel calls do for everything in list, some at once.
func inParallel[T any](list []T, do func(T) error) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i, v := range list {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(v)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// eachPage lists a resource in pages.
func eachPage(ctx context.Context, client metadata.ResourceInterface, do func([]metav1.PartialObjectMetadata)) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := client.List(ctx, options)
		if err != nil {
			return err
		}
		do(page.Items)
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// describe says what is left, the resource with most objects first. Namespaces
// are what the rest is in.
func describe(left []contents.Resource) string {
	left = slices.Clone(left)
	slices.SortFunc(left, func(a, b contents.Resource) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.String(), b.String()))
	})
	var parts []string
	for _, r := range left {
		least := ""
		if r.More {
			least = "at least "
		}
		parts = append(parts, fmt.Sprintf("%s%d %s", least, r.Count, r.GroupResource))
	}
	return strings.Join(parts, ", ")
}
