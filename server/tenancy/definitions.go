package tenancy

import (
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

const (
	// sharingPolicy and forced mark a definition of the system space that
	// every tenant uses (multi-tenancy seed, "CRD Support").
	sharingPolicy = "arktos.futurewei.com/crd-sharing-policy"
	forced        = "forced"
)

// Definitions knows the custom resources from their definitions. Those of a
// definition that is not shared are the system's own.
type Definitions struct {
	mu         sync.RWMutex
	generation int64
	byResource map[[2]string]kinds.Kind
	byKind     map[[2]string]kinds.Kind
}

// NewDefinitions makes an empty list of custom resources; Watch fills it.
func NewDefinitions() *Definitions {
	return &Definitions{byResource: map[[2]string]kinds.Kind{}, byKind: map[[2]string]kinds.Kind{}}
}

// Watch keeps up with the definitions that an informer knows.
func (c *Definitions) Watch(informer crdinformers.CustomResourceDefinitionInformer) {
	//nolint:errcheck // it fails for an informer that has stopped only
	informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.set(obj, true) },
		UpdateFunc: func(_, obj any) { c.set(obj, true) },
		DeleteFunc: func(obj any) { c.set(obj, false) },
	})
}

func (c *Definitions) set(obj any, there bool) {
	if late, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = late.Obj
	}
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return
	}
	k := kinds.Kind{
		Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural, Kind: crd.Spec.Names.Kind,
		Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Class:      kinds.System, Why: "its definition is not shared with tenants",
	}
	if crd.Annotations[sharingPolicy] == forced || crd.Labels[sharingPolicy] == forced {
		k.Class = kinds.Tenant
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	if there {
		c.byResource[[2]string{k.Group, k.Resource}] = k
		c.byKind[[2]string{k.Group, k.Kind}] = k
		return
	}
	delete(c.byResource, [2]string{k.Group, k.Resource})
	delete(c.byKind, [2]string{k.Group, k.Kind})
}

// Resource implements Customs.
func (c *Definitions) Resource(_, group, resource string) (kinds.Kind, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	k, ok := c.byResource[[2]string{group, resource}]
	return k, ok
}

// Kind implements Customs.
func (c *Definitions) Kind(_, group, kind string) (kinds.Kind, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	k, ok := c.byKind[[2]string{group, strings.TrimSuffix(kind, "List")}]
	return k, ok
}

// HasGroup implements Customs.
func (c *Definitions) HasGroup(_, group string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for key, k := range c.byResource {
		if key[0] == group && k.Class != kinds.System {
			return true
		}
	}
	return false
}

// Generation implements Customs.
func (c *Definitions) Generation(string) int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.generation
}

// Own implements Customs.
func (c *Definitions) Own(string, string, string) bool { return false }

// Definitions implements Customs.
func (c *Definitions) Definitions(string) []*apiextensionsv1.CustomResourceDefinition { return nil }
