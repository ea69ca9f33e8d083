package directory

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// soon is how long a question for a template waits for the API, before the watch is there.
const soon = time.Second

// templates are a watched list of the templates of this partition: there are few.
type templates struct {
	client     *tenantapi.TemplateClient
	store      cache.Store
	controller cache.Controller
}

// newTemplates makes the list; changed is told of what is new, has changed or is gone.
func newTemplates(cfg *rest.Config, pool *interning.Pool, changed func(name string)) (*templates, error) {
	client, err := tenantapi.NewTemplateClient(cfg, nil)
	if err != nil {
		return nil, err
	}
	t := &templates{client: client}
	tell := func(obj any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			changed(key)
		}
	}
	t.store, t.controller = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return client.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return client.Watch(ctx, options)
			},
		},
		ObjectType: &tenantapi.TenantTemplate{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: tell, UpdateFunc: func(_, obj any) { tell(obj) }, DeleteFunc: tell,
		},
		Transform: pool.Transform,
	})
	return t, nil
}

// Template finds a template, nil when there is none. What it returns must not be changed. Before the
// watch is there the API is asked, so that tenants are bounded from the beginning.
func (t *templates) Template(name string) *tenantapi.TenantTemplate {
	if obj, ok, err := t.store.GetByKey(name); err == nil && ok {
		found, _ := obj.(*tenantapi.TenantTemplate)
		return found
	}
	if t.controller.HasSynced() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	found, err := t.client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return found
}

// TemplateNames are those of all templates that are known, in their order.
func (t *templates) TemplateNames() []string {
	names := t.store.ListKeys()
	slices.Sort(names)
	return names
}
