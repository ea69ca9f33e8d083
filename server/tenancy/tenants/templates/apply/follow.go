package apply

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/templates"
)

// followed is what is watched as soon as there is some of it.
type followed struct {
	some chan struct{}
	once sync.Once
}

func newFollowed() *followed { return &followed{some: make(chan struct{})} }

func (f *followed) begin() { f.once.Do(func() { close(f.some) }) }

// wait returns when there is some, or false when there will be none.
func (f *followed) wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-f.some:
		return true
	}
}

// follows are what is watched as soon as a template has some of it: objects, Secrets that are copied, accesses.
type follows struct{ objects, copies, grants *followed }

// begin has what a template has be watched.
func (f follows) begin(template *tenantapi.TenantTemplate) {
	if len(template.Spec.Objects)+len(template.Spec.Secrets) > 0 {
		f.objects.begin()
	}
	if len(template.Spec.Secrets) > 0 {
		f.copies.begin()
	}
	if len(template.Spec.Access) > 0 {
		f.grants.begin()
	}
}

// watchAll follows the objects of templates once there are some.
func (c *controller) watchAll(ctx context.Context) {
	if !c.follows.objects.wait(ctx) {
		return
	}
	for _, kind := range templates.Kinds() {
		c.running.Go(func() { c.watch(ctx, kind) })
	}
}

// watchSources follows the Secrets of the system space that may be copied.
func (c *controller) watchSources(ctx context.Context) {
	if !c.follows.copies.wait(ctx) {
		return
	}
	changed := func(is *metav1.PartialObjectMetadata) {
		c.sourceChanged(tenantapi.TemplateSecretSource{Namespace: is.Namespace, Name: is.Name})
	}
	watchMetadata(ctx, c.inSystem.Resource(secretResource()), tenantapi.CopyLabel+"="+tenantapi.CopyAllowed,
		func(old, is *metav1.PartialObjectMetadata) {
			if old == nil || old.ResourceVersion != is.ResourceVersion {
				changed(is)
			}
		}, changed)
}

// sourceChanged has the tenants be looked at that have a copy of a Secret. They are looked at one after the
// other, so that a new tenant does not wait behind all of them.
func (c *controller) sourceChanged(source tenantapi.TemplateSecretSource) {
	var later time.Duration
	for _, t := range c.all() {
		has := slices.ContainsFunc(had(t), func(o tenantapi.TemplateObject) bool { return o.From == source.String() })
		if template := c.o.Tenants.Template(t.Spec.Template); template != nil {
			has = has || slices.Contains(templates.Sources(&template.Spec, t), source)
		}
		if has {
			c.queue.AddAfter(t.Name, later)
			later += spread
		}
	}
}

// watchAccesses follows the accesses that templates made. Only administrators of the cluster can change them.
func (c *controller) watchAccesses(ctx context.Context) {
	if !c.follows.grants.wait(ctx) {
		return
	}
	changed := func(is *metav1.PartialObjectMetadata) {
		if owner := metav1.GetControllerOf(is); owner != nil && owner.Kind == tenantapi.Kind {
			c.queue.AddAfter(owner.Name, patience)
		}
	}
	watchMetadata(ctx, c.inSystem.Resource(tenantapi.AccessGroupVersionResource()), templates.Label,
		func(old, is *metav1.PartialObjectMetadata) {
			if old != nil && old.Generation != is.Generation {
				changed(is)
			}
		}, changed)
}

// watchMetadata follows the metadata of what has a label. changed is told of what was and is, was nil for
// what is new; gone of what is no more, or has lost the label.
func watchMetadata(
	ctx context.Context, objects metadata.ResourceInterface, label string,
	changed func(was, is *metav1.PartialObjectMetadata), gone func(*metav1.PartialObjectMetadata),
) {
	of := func(obj any) *metav1.PartialObjectMetadata {
		if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = last.Obj
		}
		is, _ := obj.(*metav1.PartialObjectMetadata)
		return is
	}
	_, watcher := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.LabelSelector = label
				return objects.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.LabelSelector = label
				return objects.Watch(ctx, options)
			},
		},
		ObjectType: &metav1.PartialObjectMetadata{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				if is := of(obj); is != nil {
					changed(nil, is)
				}
			},
			UpdateFunc: func(old, obj any) {
				if is := of(obj); is != nil {
					changed(of(old), is)
				}
			},
			DeleteFunc: func(obj any) {
				if is := of(obj); is != nil {
					gone(is)
				}
			},
		},
	})
	watcher.RunWithContext(ctx)
}
