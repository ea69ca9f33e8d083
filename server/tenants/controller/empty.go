package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

const (
	// probes is how many resources of one space are listed at a time.
	probes = 4
	// pageSize is that of long lists.
	pageSize = 500
)

// definitions is the group of what goes last: without its definition an
// instance of a custom resource could not be deleted.
const definitions = "apiextensions.k8s.io"

// terminate empties a space and then lets its Tenant go.
func (c *controller) terminate(ctx context.Context, t *tenantapi.Tenant, log *logrus.Entry) (done bool, err error) {
	if meta.FindStatusCondition(t.Status.Conditions, tenantapi.SpaceEmpty) == nil {
		log.Info("tenant is being deleted: emptying its space")
	}
	v, err := c.viewOf(t.Name)
	if err != nil {
		return false, err
	}
	left, err := v.empty(ctx)
	if err != nil {
		return false, errors.Join(err, c.report(ctx, t, metav1.Condition{
			Type: tenantapi.SpaceEmpty, Status: metav1.ConditionFalse, Reason: "DeletionFailed", Message: err.Error(),
		}))
	}
	if len(left) > 0 {
		return false, c.report(ctx, t, metav1.Condition{
			Type: tenantapi.SpaceEmpty, Status: metav1.ConditionFalse, Reason: "ObjectsRemain", Message: "waiting for the end of " + describe(left),
		})
	}
	t.Finalizers = slices.DeleteFunc(t.Finalizers, func(f string) bool { return f == tenantapi.Finalizer })
	if _, err := c.tenants.Update(ctx, t, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("letting the tenant go: %w", err)
	}
	log.Info("tenant is deleted: nothing of its space is left")
	return true, nil
}

// view is a tenant's own view of its space.
type view struct {
	discovery discovery.ServerResourcesInterface
	metadata  metadata.Interface
	kinds     *kinds.Table
}

// viewOf is the one place that knows how a view is reached.
func (c *controller) viewOf(tenant string) (*view, error) {
	config := rest.CopyConfig(c.config)
	config.Host = strings.TrimSuffix(config.Host, "/") + "/tenants/" + tenant
	d, err := discovery.NewDiscoveryClientForConfigAndClient(config, c.http)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	m, err := metadata.NewForConfigAndClient(config, c.http)
	if err != nil {
		return nil, fmt.Errorf("making a metadata client: %w", err)
	}
	return &view{discovery: d, metadata: m, kinds: c.kinds}, nil
}

// resource is one that the space can have objects of.
type resource struct {
	schema.GroupVersionResource
	collections bool // all objects can be deleted by one request
}

// remainder is how many objects of a resource there still are.
type remainder struct {
	resource
	count int64
	more  bool // count is the least
}

// empty deletes what can be deleted now and says what was there. Namespaces go
// first, the cluster's own controller deletes what is in them; then the rest.
// It is to be called until nothing was there.
func (v *view) empty(ctx context.Context) ([]remainder, error) {
	namespaces := resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("namespaces")}
	left, err := v.count(ctx, namespaces)
	if err != nil {
		return nil, err
	}
	if left.count > 0 {
		return []remainder{left}, v.delete(ctx, namespaces)
	}
	all, err := v.resources()
	if err != nil {
		return nil, err
	}
	remain, err := v.countAll(ctx, all)
	if err != nil {
		return nil, err
	}
	last := !slices.ContainsFunc(remain, func(r remainder) bool { return r.Group != definitions })
	var errs []error
	for _, r := range remain {
		if last || r.Group != definitions {
			errs = append(errs, v.delete(ctx, r.resource))
		}
	}
	return remain, errors.Join(errs...)
}

// resources are those that tenants have objects of.
func (v *view) resources() ([]resource, error) {
	lists, err := v.discovery.ServerPreferredResources()
	if err != nil {
		// A group that cannot be discovered may have objects.
		return nil, fmt.Errorf("finding out which resources there are: %w", err)
	}
	var out []resource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("finding out which resources there are: %w", err)
		}
		for _, r := range list.APIResources {
			row, known := v.kinds.Resource(gv.Group, r.Name)
			if known && row.Class != kinds.Tenant || strings.Contains(r.Name, "/") ||
				!slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") {
				continue
			}
			out = append(out, resource{
				GroupVersionResource: gv.WithResource(r.Name),
				collections:          !r.Namespaced && slices.Contains(r.Verbs, "deletecollection"),
			})
		}
	}
	if len(out) == 0 {
		return nil, errors.New("finding out which resources there are: the view has none")
	}
	return out, nil
}

// countAll counts several resources at a time and leaves out the empty ones.
func (v *view) countAll(ctx context.Context, resources []resource) ([]remainder, error) {
	counts, errs := make([]remainder, len(resources)), make([]error, len(resources))
	var wg sync.WaitGroup
	slots := make(chan struct{}, probes)
	for i, r := range resources {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			counts[i], errs[i] = v.count(ctx, r)
		})
	}
	wg.Wait()
	return slices.DeleteFunc(counts, func(r remainder) bool { return r.count == 0 }), errors.Join(errs...)
}

// count counts the objects of a resource. Without a resource version the list
// is as new as the datastore.
func (v *view) count(ctx context.Context, r resource) (remainder, error) {
	if r.GroupResource() == (schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}) {
		return v.countRoles(ctx, r)
	}
	list, err := v.metadata.Resource(r.GroupVersionResource).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		// Not found too: better ask again than take an edge that does not
		// know the tenant for an empty space.
		return remainder{}, fmt.Errorf("listing %s: %w", r.GroupResource(), err)
	}
	out := remainder{resource: r, count: int64(len(list.Items))}
	if n := list.RemainingItemCount; n != nil {
		out.count += *n
	} else if list.Continue != "" {
		out.count, out.more = out.count+1, true
	}
	return out, nil
}

// countRoles leaves out the default roles, which every space shows and none
// has.
func (v *view) countRoles(ctx context.Context, r resource) (remainder, error) {
	out := remainder{resource: r}
	options := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := v.metadata.Resource(r.GroupVersionResource).List(ctx, options)
		if err != nil {
			return remainder{}, fmt.Errorf("listing %s: %w", r.GroupResource(), err)
		}
		for i := range list.Items {
			if !kinds.SharedClusterRole(list.Items[i].Name) {
				out.count++
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return out, nil
		}
	}
}

// delete asks for the end of all objects of a resource.
func (v *view) delete(ctx context.Context, r resource) error {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	client := v.metadata.Resource(r.GroupVersionResource)
	if r.collections {
		if err := client.DeleteCollection(ctx, options, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("deleting all %s: %w", r.GroupResource(), err)
		}
		return nil
	}
	var errs []error
	err := eachPage(ctx, client, func(page []metav1.PartialObjectMetadata) {
		for i := range page {
			m := &page[i]
			if !m.DeletionTimestamp.IsZero() {
				continue
			}
			// What is cluster-scoped has no namespace, and "" is none.
			if err := client.Namespace(m.Namespace).Delete(ctx, m.Name, options); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				errs = append(errs, fmt.Errorf("deleting %s %s: %w", r.GroupResource(), m.Name, err))
			}
		}
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("listing %s: %w", r.GroupResource(), err))
	}
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

// describe says what is left, the resource with most objects first.
func describe(left []remainder) string {
	left = slices.Clone(left)
	slices.SortFunc(left, func(a, b remainder) int {
		if a.count != b.count {
			return int(b.count - a.count)
		}
		return strings.Compare(a.Resource, b.Resource)
	})
	var parts []string
	for _, r := range left {
		least := ""
		if r.more {
			least = "at least "
		}
		parts = append(parts, fmt.Sprintf("%s%d %s", least, r.count, r.GroupResource()))
	}
	return strings.Join(parts, ", ")
}
