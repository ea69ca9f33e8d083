package directory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// soon is how long a question for a template waits for the API, before the watch is there, and how long its
// answer is remembered.
const soon = time.Second

// templates are a watched list of the templates of this partition: there are few.
type templates struct {
	client     *tenantapi.TemplateClient
	store      cache.Store
	controller cache.Controller
	// asking has one question at a time; mu guards asked, the answers.
	asking, mu sync.Mutex
	asked      map[string]answer
	// remember is how long an answer is good: soon.
	remember time.Duration
}

// newTemplates makes the list; changed is told of what is new, has changed or is gone.
func newTemplates(cfg *rest.Config, pool *interning.Pool, changed func(name string)) (*templates, error) {
	client, err := tenantapi.NewTemplateClient(cfg, nil)
	if err != nil {
		return nil, err
	}
	t := &templates{client: client, asked: map[string]answer{}, remember: soon}
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

// Template finds a template that is known by now, or nil. What it returns must not be changed.
func (t *templates) Template(name string) *tenantapi.TenantTemplate {
	if obj, ok, err := t.store.GetByKey(name); err == nil && ok {
		found, _ := obj.(*tenantapi.TenantTemplate)
		return found
	}
	if t.controller.HasSynced() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked[name].template
}

// answer is one of the API.
type answer struct {
	template *tenantapi.TenantTemplate
	err      error
	at       time.Time
}

// await has a template be known, if there is one. Before the watch is there the API is asked, once in a
// while, so that tenants are bounded from the beginning.
func (t *templates) await(ctx context.Context, name string) error {
	if name == "" || t.controller.HasSynced() {
		return nil
	}
	if _, ok, err := t.store.GetByKey(name); err == nil && ok {
		return nil
	}
	t.asking.Lock()
	defer t.asking.Unlock()
	t.mu.Lock()
	last, ok := t.asked[name]
	t.mu.Unlock()
	if ok && time.Since(last.at) < t.remember {
		return last.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), soon)
	defer cancel()
	found, err := t.client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		found = nil
	}
	if apierrors.IsNotFound(err) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("reading the TenantTemplate %s, whose limits the tenant has: %w", name, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked[name] = answer{found, err, time.Now()}
	return err
}

// Bounded finds tenants whose limits are known, with those of their templates.
type Bounded struct{ *Directory }

// Get finds a tenant, nil when there is none. What it returns must not be changed.
func (b Bounded) Get(ctx context.Context, name string) (*tenantapi.Tenant, error) {
	t, err := b.Directory.Get(ctx, name)
	if err != nil || t == nil {
		return nil, err
	}
	if err := b.await(ctx, t.Spec.Template); err != nil {
		return nil, err
	}
	return t, nil
}

// TemplateNames are those of all templates that are known, in their order.
func (t *templates) TemplateNames() []string {
	names := t.store.ListKeys()
	slices.Sort(names)
	return names
}
