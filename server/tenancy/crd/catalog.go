package crd

import (
	"maps"
	"slices"
	"sync"

	"github.com/sirupsen/logrus"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiserviceinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// Tenants knows the policy and labels of tenants.
type Tenants interface {
	// Known finds a tenant in the cache, or nil.
	Known(name string) *tenantapi.Tenant
}

// Catalog knows all CRDs. It is filled by Watch and WatchTenants.
type Catalog struct {
	resources
	log     *logrus.Entry
	horizon horizon

	onServing func(tenant string, r schema.GroupResource)
	onLocal   func(tenant string, old, crd *apiextensionsv1.CustomResourceDefinition)
	onUnion   func(old, crd *apiextensionsv1.CustomResourceDefinition)
}

// resources answers which custom resources there are in a space.
type resources struct{ served }

// served is which CRD serves a resource in a space.
type served struct {
	tenants Tenants

	mu     sync.RWMutex
	system map[schema.GroupResource]*shared
	local  map[string]*own
	// definers are the established CRDs of every resource, by space. union has, for
	// every resource that a tenant defines, the CRD that unites them.
	definers map[schema.GroupResource]map[string]*apiextensionsv1.CustomResourceDefinition
	union    map[schema.GroupResource]*apiextensionsv1.CustomResourceDefinition
	// builtIn are the built-in groups, foreign the group versions of aggregated
	// API servers, by APIService.
	builtIn map[string]bool
	foreign map[string]schema.GroupVersion
	// generation counts the changes that concern every tenant.
	generation, unionGeneration int64
	// policies counts the changes of one tenant's policy and labels.
	policies map[string]int64
}

// shared is a CRD of the system space.
type shared struct {
	crd     *apiextensionsv1.CustomResourceDefinition
	sharing Sharing
}

// own are the CRDs of one tenant, with native names.
type own struct {
	byResource map[schema.GroupResource]*apiextensionsv1.CustomResourceDefinition
	sizes      map[string]Size // by name
	generation int64
}

// NewCatalog returns an empty catalog.
func NewCatalog(tenants Tenants, log *logrus.Entry) *Catalog {
	return &Catalog{
		resources: resources{served{
			tenants:  tenants,
			system:   map[schema.GroupResource]*shared{},
			local:    map[string]*own{},
			union:    map[schema.GroupResource]*apiextensionsv1.CustomResourceDefinition{},
			definers: map[schema.GroupResource]map[string]*apiextensionsv1.CustomResourceDefinition{},
			builtIn:  kinds.Groups(),
			foreign:  map[string]schema.GroupVersion{},
			policies: map[string]int64{},
		}},
		log:     log,
		horizon: horizon{of: map[string]uint64{}},
	}
}

// Reset removes all CRDs and handlers: the API server starts again.
func (c *Catalog) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.system)
	clear(c.local)
	clear(c.union)
	clear(c.definers)
	clear(c.foreign)
	c.onServing, c.onLocal, c.onUnion = nil, nil, nil
	c.generation++
	c.unionGeneration++
}

// OnServing has f called after what serves may have changed: for one tenant,
// or for all if it is "", and for one resource, or for all if it is empty. All
// On functions must be called before anything is watched.
func (c *Catalog) OnServing(f func(tenant string, r schema.GroupResource)) {
	c.onServing = f
}

// OnLocal has f called in order with every change of a tenant's CRD in its native
// form. One of the two is nil when it is new or gone.
func (c *Catalog) OnLocal(f func(tenant string, old, crd *apiextensionsv1.CustomResourceDefinition)) {
	c.onLocal = f
}

// OnUnion has f called like OnLocal's for the CRDs that unite those of all tenants.
func (c *Catalog) OnUnion(f func(old, crd *apiextensionsv1.CustomResourceDefinition)) { c.onUnion = f }

// Watch follows the CRDs of the system space.
func (c *Catalog) Watch(informer crdinformers.CustomResourceDefinitionInformer) {
	handle(informer, c.setSystem)
}

// WatchTenants follows the CRDs of tenants, in composite form.
func (c *Catalog) WatchTenants(informer crdinformers.CustomResourceDefinitionInformer) {
	handle(informer, c.setLocal)
}

// WatchAPIServices follows the groups of aggregated API servers.
func (c *Catalog) WatchAPIServices(informer apiserviceinformers.APIServiceInformer) {
	tell := func(obj any) {
		if service, ok := obj.(*apiregistrationv1.APIService); ok && service.Spec.Service != nil {
			c.SetForeign(service.Name, schema.GroupVersion{Group: service.Spec.Group, Version: service.Spec.Version})
		} else if ok {
			c.SetForeign(service.Name, schema.GroupVersion{})
		}
	}
	//nolint:errcheck // it fails for an informer that has stopped only
	informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    tell,
		UpdateFunc: func(_, obj any) { tell(obj) },
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				c.SetForeign(name, schema.GroupVersion{})
			}
		},
	})
}

func handle(
	informer crdinformers.CustomResourceDefinitionInformer,
	set func(crd *apiextensionsv1.CustomResourceDefinition, there bool),
) {
	tell := func(obj any, there bool) {
		if late, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = late.Obj
		}
		if crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
			set(crd, there)
		}
	}
	//nolint:errcheck // it fails for an informer that has stopped only
	informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { tell(obj, true) },
		UpdateFunc: func(_, obj any) { tell(obj, true) },
		DeleteFunc: func(obj any) { tell(obj, false) },
	})
}

// TenantChanged says that a Tenant is another than before.
func (c *Catalog) TenantChanged(old, t *tenantapi.Tenant) {
	if old != nil && old.Spec.CRDPolicy == t.Spec.CRDPolicy && maps.Equal(old.Labels, t.Labels) {
		return
	}
	c.mu.Lock()
	c.policies[t.Name]++
	if old != nil {
		c.horizon.of[t.Name] = c.horizon.changed(&t.ObjectMeta)
	}
	c.mu.Unlock()
	c.changed(t.Name, schema.GroupResource{})
}

// TenantGone forgets a tenant.
func (c *Catalog) TenantGone(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.policies, name)
	delete(c.horizon.of, name)
}

func (c *Catalog) setSystem(crd *apiextensionsv1.CustomResourceDefinition, there bool) {
	r := resourceOf(crd)
	sharing, err := ParseSharing(&crd.ObjectMeta)
	if err != nil {
		// It is refused when it is written, unless it was written before.
		c.log.WithField("definition", crd.Name).WithError(err).Warn("this definition is not shared with tenants")
	}
	c.mu.Lock()
	c.generation++
	if before := c.system[r]; sharing.Shared || before != nil && before.sharing.Shared {
		c.horizon.all = c.horizon.changed(&crd.ObjectMeta)
	}
	if there {
		c.system[r] = &shared{crd: crd, sharing: sharing}
	} else {
		delete(c.system, r)
	}
	oldUnion, union := c.setUnion(space.System, r, crd, there)
	c.mu.Unlock()
	if c.onUnion != nil && oldUnion != union {
		c.onUnion(oldUnion, union)
	}
	c.changed("", r)
}

func (c *Catalog) setLocal(composite *apiextensionsv1.CustomResourceDefinition, there bool) {
	tenant, native := nativeForm(composite)
	if tenant == space.System {
		return
	}
	r, size := resourceOf(native), SizeOf(native)
	c.mu.Lock()
	defs := c.local[tenant]
	if defs == nil {
		defs = &own{byResource: map[schema.GroupResource]*apiextensionsv1.CustomResourceDefinition{},
			sizes: map[string]Size{}}
		c.local[tenant] = defs
	}
	old := defs.byResource[r]
	defs.generation++
	if there {
		defs.byResource[r] = native
		defs.sizes[native.Name] = size
	} else {
		delete(defs.byResource, r)
		delete(defs.sizes, native.Name)
	}
	if len(defs.byResource) == 0 {
		// What it counted is kept for documents that were made before.
		c.policies[tenant] += defs.generation
		delete(c.local, tenant)
	}
	oldUnion, union := c.setUnion(tenant, r, native, there)
	c.mu.Unlock()
	if c.onLocal != nil && (there || old != nil) {
		if !there {
			native = nil
		}
		c.onLocal(tenant, old, native)
	}
	if c.onUnion != nil && oldUnion != union {
		c.onUnion(oldUnion, union)
	}
	c.changed(tenant, r)
}

func (c *Catalog) changed(tenant string, r schema.GroupResource) {
	if c.onServing != nil {
		c.onServing(tenant, r)
	}
}

// Serving finds the CRD that serves a tenant, nil if there is none.
// It must not be changed.
func (c *served) Serving(tenant string, r schema.GroupResource) (Source, *apiextensionsv1.CustomResourceDefinition) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.serving(tenant, r)
}

func (c *served) serving(tenant string, r schema.GroupResource) (Source, *apiextensionsv1.CustomResourceDefinition) {
	var candidates Candidates
	var local *apiextensionsv1.CustomResourceDefinition
	if defs := c.local[tenant]; defs != nil {
		local = defs.byResource[r]
		// It may have been created before tenants were kept out of these groups.
		candidates.Local = established(local) && !c.builtIn[r.Group]
	}
	system := c.system[r]
	var policy tenantapi.CRDPolicy
	if system != nil && system.sharing.Shared && established(system.crd) {
		var labels map[string]string
		if t := c.tenants.Known(tenant); t != nil {
			policy, labels = t.Spec.CRDPolicy, t.Labels
		}
		candidates.Forced, candidates.Applicable = system.sharing.Forced, system.sharing.Covers(tenant, labels)
	}
	switch s := Match(policy, candidates); s {
	case System:
		return s, system.crd
	case Local:
		return s, local
	default:
		return Nobody, nil
	}
}

// ForcedByName reports whether the system has a forced CRD of this name.
func (c *served) ForcedByName(name string) bool {
	r := schema.ParseGroupResource(name)
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := c.system[r]
	return s != nil && s.sharing.Forced
}

// SystemServes reports whether the system space itself is served a version of a
// resource.
func (c *served) SystemServes(r schema.GroupVersionResource) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := c.system[r.GroupResource()]
	return s != nil && apihelpers.HasServedCRDVersion(s.crd, r.Version)
}

// Defines reports whether the tenant's own CRD of a resource has a version and kind.
func (c *served) Defines(tenant string) func(schema.GroupResource, schema.GroupVersionKind) bool {
	return func(r schema.GroupResource, kind schema.GroupVersionKind) bool {
		crd := c.own(tenant, r)
		return crd != nil && kind.Group == crd.Spec.Group && kind.Kind == crd.Spec.Names.Kind &&
			slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
				return v.Name == kind.Version
			})
	}
}

func (c *served) own(tenant string, r schema.GroupResource) *apiextensionsv1.CustomResourceDefinition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if defs := c.local[tenant]; defs != nil {
		return defs.byResource[r]
	}
	return nil
}

// Unites reports whether there is a CRD that unites those of tenants.
func (c *served) Unites(r schema.GroupResource) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.union[r] != nil
}

// established reports whether a CRD is established.
func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return crd != nil && apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established)
}

func resourceOf(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupResource {
	return schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
}
