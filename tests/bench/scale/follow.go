package main

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

// resource is what can be followed: its name, an object of it, and, if not all of
// them are wanted, the name of those that are.
type resource struct {
	plural  string
	example runtime.Object
	name    string
}

// follow hands the objects of a resource to a handler until the context ends. It
// returns when it has those that there are.
func follow(ctx context.Context, client rest.Interface, r resource, handler cache.ResourceEventHandler) error {
	selector := fields.Everything()
	if r.name != "" {
		selector = fields.OneTermEqualSelector(metav1.ObjectNameField, r.name)
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client, r.plural, metav1.NamespaceAll, selector),
		ObjectType:    r.example,
		Handler:       handler,
	})
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("watching %s: %w", r.plural, ctx.Err())
	}
	return nil
}

// arrivals tells who waits for it that something has come.
type arrivals struct {
	mu   sync.Mutex
	come map[string]chan struct{}
}

func newArrivals() *arrivals { return &arrivals{come: map[string]chan struct{}{}} }

func (a *arrivals) channel(key string) chan struct{} {
	if a.come[key] == nil {
		a.come[key] = make(chan struct{})
	}
	return a.come[key]
}

// add says that something has come, perhaps not for the first time.
func (a *arrivals) add(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.channel(key)
	select {
	case <-c:
	default:
		close(c)
	}
}

// await returns when it has come.
func (a *arrivals) await(ctx context.Context, key string) error {
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
