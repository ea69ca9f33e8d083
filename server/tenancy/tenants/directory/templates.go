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

// soon is how long a question for a template that the watch does not have waits for the API, and how long its
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

// newTemplates makes the list; changed is told of what is new, has changed or, with nil, is gone.
func newTemplates(
	cfg *rest.Config, pool *interning.Pool, changed func(name string, t *tenantapi.TenantTemplate),
) (*templates, error) {
	client, err := tenantapi.NewTemplateClient(cfg, nil)
	if err != nil {
		return nil, err
	}
	t := &templates{client: client, asked: map[string]answer{}, remember: soon}
	// What is told is not looked up: a handler may run while the queue of the watch is locked.
	tell := func(obj any) {
		if now, ok := obj.(*tenantapi.TenantTemplate); ok {
			t.forget(now.Name)
			changed(now.Name, now)
		}
	}
	gone := func(obj any) {
		if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			t.forget(name)
			changed(name, nil)
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
			AddFunc: tell, UpdateFunc: func(_, obj any) { tell(obj) }, DeleteFunc: gone,
		},
		Transform: pool.Transform,
	})
	return t, nil
}

// Template finds a template that is known by now, or nil. What it returns must not be changed.
func (t *templates) Template(name string) *tenantapi.TenantTemplate {
	if found := t.watched(name); found != nil {
		return found
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked[name].template
}

func (t *templates) watched(name string) *tenantapi.TenantTemplate {
	obj, ok, err := t.store.GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	found, _ := obj.(*tenantapi.TenantTemplate)
	return found
}

// forget drops the answer to a question, where the watch knows better.
func (t *templates) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.asked, name)
}

// answered is the last answer for a template, if it is still good.
func (t *templates) answered(name string) (answer, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.asked[name]
	return last, ok && time.Since(last.at) < t.remember
}

// answer is one of the API.
type answer struct {
	template *tenantapi.TenantTemplate
	err      error
	at       time.Time
}

// await has a template be known, if there is one. What the watch does not have the API is asked for, once in a
// while: the watch may not be there yet, or be behind a tenant that was made on another server.
func (t *templates) await(ctx context.Context, name string) error {
	if name == "" || t.watched(name) != nil {
		return nil
	}
	if last, ok := t.answered(name); ok {
		return last.err
	}
	t.asking.Lock()
	defer t.asking.Unlock()
	if last, ok := t.answered(name); ok {
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
		err = fmt.Errorf("reading the TenantTemplate %s, which the tenant is made from: %w", name, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked[name] = answer{found, err, time.Now()}
	return err
}

// Bounded finds tenants whose templates are known.
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
