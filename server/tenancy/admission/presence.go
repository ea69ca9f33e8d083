package admission

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
)

// configurations are the resources that give a plugin of a tenant work. A
// policy without a binding does nothing, so the bindings tell.
func configurations() map[string]schema.GroupVersionResource {
	gv := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	return map[string]schema.GroupVersionResource{
		mutatingwebhook.PluginName:   gv.WithResource("mutatingwebhookconfigurations"),
		validatingwebhook.PluginName: gv.WithResource("validatingwebhookconfigurations"),
		mutatingpolicy.PluginName:    gv.WithResource("mutatingadmissionpolicybindings"),
		validatingpolicy.PluginName:  gv.WithResource("validatingadmissionpolicybindings"),
	}
}

// presence knows which tenants have configurations for which plugin: their
// names and nothing else of them.
type presence struct {
	synced chan struct{}
	once   sync.Once // closes synced
	mu     sync.RWMutex
	counts map[string]map[string]int // tenant, plugin
	// changes counts what was changed or removed: what it names may be gone.
	changes atomic.Int64
	gone    func(tenant string) // called when a tenant has none left
}

func newPresence() *presence {
	return &presence{synced: make(chan struct{}), counts: map[string]map[string]int{}, gone: func(string) {}}
}

// Changes is another number when a tenant has changed or removed a configuration.
func (a *Admission) Changes() int64 { return a.presence.changes.Load() }

// has reports whether a tenant has configurations for a plugin.
func (p *presence) has(tenant, plugin string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.counts[tenant][plugin] > 0
}

// wait returns when everything that was there at the start is known.
func (p *presence) wait(ctx context.Context, within time.Duration) error {
	select {
	case <-p.synced:
		return nil
	default:
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.synced:
		return nil
	case <-timer.C:
		return fmt.Errorf("the admission configurations of tenants are not known yet")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add changes the number of configurations of a tenant by n.
func (p *presence) add(tenant, plugin string, n int) {
	p.mu.Lock()
	of := p.counts[tenant]
	if of == nil {
		of = map[string]int{}
		p.counts[tenant] = of
	}
	of[plugin] += n
	left := 0
	for _, count := range of {
		left += count
	}
	if left == 0 {
		delete(p.counts, tenant)
	}
	p.mu.Unlock()
	if left == 0 {
		p.gone(tenant)
	}
}

// run watches the configurations of all tenants until ctx ends.
func (p *presence) run(ctx context.Context, cfg *rest.Config) error {
	p.mu.Lock()
	p.counts = map[string]map[string]int{}
	p.mu.Unlock()
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making the client that watches admission configurations: %w", err)
	}
	factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, metav1.NamespaceAll,
		func(o *metav1.ListOptions) {
			o.LabelSelector = space.Label
		})
	var handlers []cache.InformerSynced
	for plugin, gvr := range configurations() {
		informer := factory.ForResource(gvr).Informer()
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { p.count(obj, plugin, 1) },
			UpdateFunc: func(any, any) { p.changes.Add(1) },
			DeleteFunc: func(obj any) {
				p.changes.Add(1)
				p.count(obj, plugin, -1)
			},
		})
		if err != nil {
			return fmt.Errorf("watching %s: %w", gvr.Resource, err)
		}
		handlers = append(handlers, registration.HasSynced)
	}
	factory.Start(ctx.Done())
	if cache.WaitForCacheSync(ctx.Done(), handlers...) {
		p.once.Do(func() { close(p.synced) })
	}
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

func (p *presence) count(obj any, plugin string, n int) {
	if late, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = late.Obj
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	if tenant, _ := space.SplitClusterName(accessor.GetName()); tenant != space.System {
		p.add(tenant, plugin, n)
	}
}
