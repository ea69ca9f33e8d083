package owners

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/controller-manager/pkg/informerfactory"
)

// Informers are those that the graph is built from.
func (v *View) Informers(inner informerfactory.InformerFactory) informerfactory.InformerFactory {
	return factory{inner, v}
}

type factory struct {
	informerfactory.InformerFactory
	view *View
}

// ForResource implements informerfactory.InformerFactory.
func (f factory) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	inner, err := f.InformerFactory.ForResource(r)
	if err != nil {
		return nil, err
	}
	return generic{inner, f.view, r.GroupResource()}, nil
}

type generic struct {
	informers.GenericInformer
	view     *View
	resource schema.GroupResource
}

// Informer implements informers.GenericInformer.
func (g generic) Informer() cache.SharedIndexInformer {
	return informer{g.GenericInformer.Informer(), g.view, g.resource}
}

// informer tells what happens to objects as the graph has them.
type informer struct {
	cache.SharedIndexInformer
	view     *View
	resource schema.GroupResource
}

func (i informer) seen(h cache.ResourceEventHandler) cache.ResourceEventHandler {
	return handler{h, i.view, i.resource}
}

// AddEventHandler implements cache.SharedInformer.
func (i informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(i.seen(h))
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i informer) AddEventHandlerWithResyncPeriod(
	h cache.ResourceEventHandler, period time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(i.seen(h), period)
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i informer) AddEventHandlerWithOptions(
	h cache.ResourceEventHandler, o cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(i.seen(h), o)
}

// GetStore implements cache.SharedInformer.
func (i informer) GetStore() cache.Store { return store{i.SharedIndexInformer.GetStore()} }

// store sends who asks for one object to the API, by the client of the collector. The
// migration of stored versions lists it, and works with the UIDs of the API.
type store struct{ cache.Store }

// GetByKey implements cache.Store.
func (store) GetByKey(string) (any, bool, error) { return nil, false, nil }

type handler struct {
	inner    cache.ResourceEventHandler
	view     *View
	resource schema.GroupResource
}

// OnAdd implements cache.ResourceEventHandler.
func (h handler) OnAdd(obj any, first bool) { h.inner.OnAdd(h.view.object(h.resource, obj), first) }

// OnUpdate implements cache.ResourceEventHandler. Of the old object only the finalizers
// and the time of deletion count.
func (h handler) OnUpdate(old, obj any) { h.inner.OnUpdate(old, h.view.object(h.resource, obj)) }

// OnDelete implements cache.ResourceEventHandler.
func (h handler) OnDelete(obj any) { h.inner.OnDelete(h.view.object(h.resource, obj)) }
