package serving

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/client-go/tools/cache"
)

// view is an informer of a few CRDs that are given to it, for parts of
// upstream that take an informer. It costs nothing but what it holds.
type view struct {
	cache.SharedIndexInformer // nil: upstream asks for nothing but what is below

	indexer cache.Indexer

	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
	events   []func()
	running  bool
}

func newView() *view {
	return &view{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
}

// Informer implements CustomResourceDefinitionInformer.
func (v *view) Informer() cache.SharedIndexInformer { return v }

// Lister implements CustomResourceDefinitionInformer.
func (v *view) Lister() listers.CustomResourceDefinitionLister {
	return listers.NewCustomResourceDefinitionLister(v.indexer)
}

// GetIndexer implements cache.SharedIndexInformer.
func (v *view) GetIndexer() cache.Indexer { return v.indexer }

// GetStore implements cache.SharedInformer.
func (v *view) GetStore() cache.Store { return v.indexer }

// HasSynced implements cache.SharedInformer.
func (v *view) HasSynced() bool { return true }

// AddEventHandler implements cache.SharedInformer. All handlers are added
// before there is anything to tell them.
func (v *view) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.handlers = append(v.handlers, h)
	return v, nil
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (v *view) AddEventHandlerWithOptions(
	h cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return v.AddEventHandler(h)
}

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (v *view) HasSyncedChecker() cache.DoneChecker { return nil }

// set puts a CRD into the view, or takes it away. Who looks sees it at
// once; the handlers, which may block, are called in order behind it.
func (v *view) set(name string, crd *apiextensionsv1.CustomResourceDefinition) {
	old, _, _ := v.indexer.GetByKey(name) //nolint:errcheck // it has none to return
	if crd == nil {
		if old == nil {
			return
		}
		v.indexer.Delete(old) //nolint:errcheck // the key of what is in it is known
	} else {
		v.indexer.Add(crd) //nolint:errcheck // it has a name
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.events = append(v.events, func() {
		for _, h := range v.handlers {
			switch {
			case crd == nil:
				h.OnDelete(old)
			case old == nil:
				h.OnAdd(crd, false)
			default:
				h.OnUpdate(old, crd)
			}
		}
	})
	if !v.running {
		v.running = true
		go v.deliver()
	}
}

func (v *view) deliver() {
	for {
		v.mu.Lock()
		events := v.events
		v.events, v.running = nil, len(events) > 0
		v.mu.Unlock()
		if len(events) == 0 {
			return
		}
		for _, tell := range events {
			tell()
		}
	}
}

// size is how many CRDs are in it.
func (v *view) size() int { return len(v.indexer.ListKeys()) }
