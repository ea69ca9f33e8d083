package access

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// labelled are the Secrets with the label of accesses.
func labelled(secrets metadata.ResourceInterface) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = tenantapi.AccessLabel
			return secrets.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = tenantapi.AccessLabel
			return secrets.Watch(ctx, options)
		},
	}
}

// watchSecrets follows the Secrets of accesses of the system space, once there is one.
func (c *controller) watchSecrets(ctx context.Context) {
	if !c.some.wait(ctx) {
		return
	}
	tell := func(obj any) {
		if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = last.Obj
		}
		if is, ok := obj.(*metav1.PartialObjectMetadata); ok {
			c.ofSystem.queue.AddAfter(is.Labels[tenantapi.AccessLabel], soonest)
		}
	}
	_, watcher := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: labelled(c.secrets.Resource(secretResource())),
		ObjectType:    &metav1.PartialObjectMetadata{},
		Handler: cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(_, obj any) { tell(obj) }, DeleteFunc: tell,
		},
	})
	watcher.RunWithContext(ctx)
}

// watchOwnSecrets follows those of accesses that tenants made, once there is one. Users of a tenant can put the
// label on any Secret of theirs: these are looked up in vain, and nothing is kept of them.
func (c *controller) watchOwnSecrets(ctx context.Context) {
	if !c.someOwn.wait(ctx) {
		return
	}
	cache.NewReflectorWithOptions(labelled(c.everywhere.Resource(secretResource())), &metav1.PartialObjectMetadata{},
		ownSecrets{c}, cache.ReflectorOptions{Name: Name, TypeDescription: "Secret"}).RunWithContext(ctx)
}

// ownSecrets is told of the Secrets of accesses that tenants made, and keeps none.
type ownSecrets struct{ *controller }

var _ cache.ReflectorStore = ownSecrets{}

// Update implements cache.ReflectorStore.
func (s ownSecrets) Update(obj any) error {
	if is, ok := obj.(*metav1.PartialObjectMetadata); ok {
		if key := s.ownsSecret(is); key != "" {
			s.own.queue.AddAfter(key, soonest)
		}
	}
	return nil
}

// ownsSecret is the access that a tenant made whose Secret something is by its name, "" for none.
func (c *controller) ownsSecret(is *metav1.PartialObjectMetadata) (key string) {
	of, namespace := space.SplitNamespace(is.Namespace)
	if space.IsSystem(of) {
		return ""
	}
	key = space.ClusterName(of, is.Labels[tenantapi.AccessLabel])
	known, there, err := c.known.GetByKey(key)
	if err != nil || !there {
		return ""
	}
	if a, ok := known.(*tenantapi.TenantAccess); !ok || a.Spec.Secret.Namespace != namespace ||
		a.Spec.Secret.Name != is.Name {
		return ""
	}
	return key
}

// Delete implements cache.ReflectorStore. What has lost the label is deleted, too, as the watch sees it.
func (s ownSecrets) Delete(obj any) error { return s.Update(obj) }

// Add implements cache.ReflectorStore: new ones are the controller's.
func (ownSecrets) Add(any) error { return nil }

// Replace implements cache.ReflectorStore. What nobody told of is found at the next look.
func (ownSecrets) Replace([]any, string) error { return nil }

// Resync implements cache.ReflectorStore.
func (ownSecrets) Resync() error { return nil }
