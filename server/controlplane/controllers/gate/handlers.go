package gate

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
)

// Informers are those of a factory, whose handlers get their events through the gate.
// They stay those of all controllers.
func (g *Gate) Informers(f informers.SharedInformerFactory) informers.SharedInformerFactory {
	return &factory{f, g}
}

type factory struct {
	informers.SharedInformerFactory
	gate *Gate
}

// InformerFor implements internalinterfaces.SharedInformerFactory. What the groups below
// return comes from here.
func (f *factory) InformerFor(
	obj runtime.Object, make internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	return &informer{f.SharedInformerFactory.InformerFor(obj, make), f.gate}
}

// Apps implements informers.SharedInformerFactory.
func (f *factory) Apps() apps.Interface { return apps.New(f, "", nil) }

// Batch implements informers.SharedInformerFactory.
func (f *factory) Batch() batch.Interface { return batch.New(f, "", nil) }

// Core implements informers.SharedInformerFactory.
func (f *factory) Core() core.Interface { return core.New(f, "", nil) }

// informer is a view of an informer.
type informer struct {
	cache.SharedIndexInformer
	gate *Gate
}

// AddEventHandler implements cache.SharedInformer.
func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(&handler{h, i.gate})
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i *informer) AddEventHandlerWithResyncPeriod(
	h cache.ResourceEventHandler, period time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(&handler{h, i.gate}, period)
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i *informer) AddEventHandlerWithOptions(
	h cache.ResourceEventHandler, o cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(&handler{h, i.gate}, o)
}

// handler tells another one of events in their turn.
type handler struct {
	to   cache.ResourceEventHandler
	gate *Gate
}

// OnAdd implements cache.ResourceEventHandler. The first list waits for nobody: the
// controller begins when it has been told of all of it.
func (h *handler) OnAdd(obj any, first bool) {
	if first {
		h.to.OnAdd(obj, first)
		return
	}
	h.pass(&event{obj: obj, tell: func(e *event) { h.to.OnAdd(e.obj, false) }})
}

// OnUpdate implements cache.ResourceEventHandler.
func (h *handler) OnUpdate(old, obj any) {
	h.pass(&event{old: old, obj: obj, tell: func(e *event) { h.to.OnUpdate(e.old, e.obj) }})
}

// OnDelete implements cache.ResourceEventHandler.
func (h *handler) OnDelete(obj any) {
	h.pass(&event{obj: obj, deleted: true, tell: func(e *event) { h.to.OnDelete(e.obj) }})
}

func (h *handler) pass(e *event) {
	obj := e.obj
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		e.tell(e)
		return
	}
	name, _ := space.SplitNamespace(m.GetNamespace())
	if space.IsSystem(name) {
		e.tell(e)
		return
	}
	e.of = object{h, m.GetNamespace(), m.GetName()}
	h.gate.pass(name, e)
}
