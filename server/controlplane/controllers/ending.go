package controllers

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/controller-manager/pkg/informerfactory"
)

const (
	// goneAfter is how long a resource is not found before its informer ends. By then the
	// garbage collector and the controller of quotas, which ask every half a minute what
	// there is, have let go of it; if they want it again they ask for an informer.
	goneAfter = 3 * time.Minute
	// apart is more than there is between two attempts of an informer that fails.
	apart = 2 * time.Minute
)

// endingInformers are the informers of the controllers that work on all kinds of objects.
// Upstream's factory keeps the informer of every resource that there ever was, which goes
// on asking for it, so that CRDs which come and go leave goroutines behind. These end
// when their resource is gone.
type endingInformers struct {
	typed informers.SharedInformerFactory
	// metadata makes the informer of a resource that no typed client knows.
	metadata  func(schema.GroupVersionResource) informers.GenericInformer
	transform cache.TransformFunc
	goneAfter time.Duration

	mu sync.Mutex
	of map[schema.GroupVersionResource]*endingInformer
}

var _ informerfactory.InformerFactory = &endingInformers{}

// endingInformer is the informer of a resource that may end.
type endingInformer struct {
	informers.GenericInformer
	end context.CancelFunc // nil until it is started
	// missing is since when the resource was not found, last when it was so last.
	missing, last time.Time
}

// ForResource implements informerfactory.InformerFactory.
func (e *endingInformers) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	if typed, err := e.typed.ForResource(r); err == nil {
		return typed, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.of[r]; known != nil {
		return known, nil
	}
	i := &endingInformer{GenericInformer: e.metadata(r)}
	if err := i.Informer().SetTransform(e.transform); err != nil {
		return nil, err
	}
	if err := i.Informer().SetWatchErrorHandlerWithContext(
		func(ctx context.Context, reflector *cache.Reflector, err error) {
			if !apierrors.IsNotFound(err) {
				cache.DefaultWatchErrorHandler(ctx, reflector, err)
				return
			}
			e.notFound(r, i)
		}); err != nil {
		return nil, err
	}
	e.of[r] = i
	return i, nil
}

// notFound ends an informer whose resource is gone.
func (e *endingInformers) notFound(r schema.GroupVersionResource, i *endingInformer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if now.Sub(i.last) > apart {
		i.missing = now
	}
	if i.last = now; now.Sub(i.missing) < e.goneAfter || e.of[r] != i || i.end == nil {
		return
	}
	delete(e.of, r)
	i.end()
}

// Start implements informerfactory.InformerFactory.
func (e *endingInformers) Start(stop <-chan struct{}) {
	e.typed.Start(stop)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, i := range e.of {
		if i.end != nil {
			continue
		}
		var ctx context.Context
		ctx, i.end = context.WithCancel(wait.ContextForChannel(stop))
		go i.Informer().RunWithContext(ctx)
	}
}
