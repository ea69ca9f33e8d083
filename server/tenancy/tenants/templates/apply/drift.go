package apply

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/templates"
)

const (
	// moment is how long changes of the tenants of one template are gathered.
	moment = 200 * time.Millisecond
	// patience is how long those of the objects of one tenant are: somebody else of the system may
	// have them change back again and again.
	patience = time.Second
)

// watch follows what happens to the objects of templates in all spaces until ctx ends. Users of a tenant
// can put the label on objects of theirs, too: these are looked up in vain, and that is all.
func (c *controller) watch(ctx context.Context, kind templates.Kind) {
	objects := c.metadata.Resource(kind.GroupVersionResource())
	cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = templates.Label
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = templates.Label
			return objects.Watch(ctx, options)
		},
	}, &metav1.PartialObjectMetadata{}, &watched{c, kind}, cache.ReflectorOptions{
		Name: manager, TypeDescription: kind.Kind}).RunWithContext(ctx)
}

// watched is told of the objects of a kind, and keeps none.
type watched struct {
	c    *controller
	kind templates.Kind
}

var _ cache.ReflectorStore = (*watched)(nil)

// ref is the tenant of an object, and its name in there.
func (w *watched) ref(obj any) (is *metav1.PartialObjectMetadata, tenant string, ref tenantapi.TemplateObject) {
	is, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, "", ref
	}
	switch {
	case w.kind.Namespaced:
		tenant, _ = space.SplitNamespace(is.Namespace)
	case w.kind.Kind == templates.KindNamespace:
		tenant, _ = space.SplitNamespace(is.Name)
	default:
		tenant, _ = space.SplitClusterName(is.Name)
	}
	return is, tenant, w.kind.Ref(is.Namespace, is.Name)
}

// Add implements cache.ReflectorStore.
func (w *watched) Add(obj any) error {
	if is, tenant, ref := w.ref(obj); w.c.has(tenant, ref) && w.c.marks.changed(tenant, ref, is) {
		w.c.queue.AddAfter(tenant, patience)
	}
	return nil
}

// Update implements cache.ReflectorStore.
func (w *watched) Update(obj any) error { return w.Add(obj) }

// Delete implements cache.ReflectorStore. What has lost the label is deleted, too, as the watch sees it.
func (w *watched) Delete(obj any) error {
	if is, tenant, ref := w.ref(obj); is != nil && w.c.marks.ended(tenant, ref, is.UID) && w.c.has(tenant, ref) {
		w.c.queue.AddAfter(tenant, patience)
	}
	return nil
}

// Replace implements cache.ReflectorStore: some objects may be gone meanwhile.
func (w *watched) Replace(objects []any, _ string) error {
	type key struct {
		tenant string
		ref    tenantapi.TemplateObject
	}
	there := map[key]bool{}
	for _, obj := range objects {
		_, tenant, ref := w.ref(obj)
		there[key{tenant, ref}] = true
		_ = w.Add(obj) //nolint:errcheck // it never fails
	}
	for _, t := range w.c.all() {
		for _, ref := range had(t) {
			if ref.Kind == w.kind.Kind && !there[key{t.Name, ref.Named()}] {
				w.c.queue.AddAfter(t.Name, patience)
			}
		}
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (w *watched) Resync() error { return nil }

// has reports whether an object is a template's.
func (c *controller) has(tenant string, ref tenantapi.TemplateObject) bool {
	if space.IsSystem(tenant) {
		return false
	}
	t := c.o.Tenants.Known(tenant)
	return t != nil && t.Status.Template.Has(ref)
}
