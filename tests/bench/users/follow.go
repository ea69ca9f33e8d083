package users

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Resource is what can be followed: its name, an object of it, and, if not all of
// them are wanted, the name of those that are.
type Resource struct {
	Plural  string
	Example runtime.Object
	Name    string
}

// Follow hands the objects of a resource to a handler until the context ends. It
// returns when it has those that there are.
func Follow(ctx context.Context, client rest.Interface, r Resource, handler cache.ResourceEventHandler) error {
	selector := fields.Everything()
	if r.Name != "" {
		selector = fields.OneTermEqualSelector(metav1.ObjectNameField, r.Name)
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client, r.Plural, metav1.NamespaceAll, selector),
		ObjectType:    r.Example,
		Handler:       handler,
	})
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("watching %s: %w", r.Plural, ctx.Err())
	}
	return nil
}

// Arrivals tells who waits for it that something has come.
type Arrivals struct {
	mu   sync.Mutex
	come map[string]chan struct{}
}

// NewArrivals returns some to which nothing has come.
func NewArrivals() *Arrivals { return &Arrivals{come: map[string]chan struct{}{}} }

func (a *Arrivals) channel(key string) chan struct{} {
	if a.come[key] == nil {
		a.come[key] = make(chan struct{})
	}
	return a.come[key]
}

// Add says that something has come, perhaps not for the first time.
func (a *Arrivals) Add(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.channel(key)
	select {
	case <-c:
	default:
		close(c)
	}
}

// Await returns when it has come.
func (a *Arrivals) Await(ctx context.Context, key string) error {
	a.mu.Lock()
	c := a.channel(key)
	a.mu.Unlock()
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", key, ctx.Err())
	}
}
