package owners

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
)

// separator is between the tenant and the UID. No UID has it.
const separator = "/"

// scopesLive is how long it is known which kinds have namespaces.
const scopesLive = 30 * time.Second

// View translates between the objects of the API and those of the collector.
type View struct {
	mapper meta.RESTMapper
	now    func() time.Time

	mu     sync.Mutex
	scopes map[schema.GroupVersionKind]bool // whether objects of it have a namespace
	since  time.Time
}

// New returns a view. The mapper is that of the collector.
func New(mapper meta.RESTMapper) *View { return &View{mapper: mapper, now: time.Now} }

// qualify makes a UID of a space one that no other space has.
func qualify(tenant string, uid types.UID) types.UID {
	if space.IsSystem(tenant) {
		return uid
	}
	return types.UID(tenant + separator + string(uid))
}

// unqualify is the inverse of qualify.
func unqualify(uid types.UID) types.UID {
	if _, of, ok := strings.Cut(string(uid), separator); ok {
		return types.UID(of)
	}
	return uid
}

// spaceOf is the space of an object.
func spaceOf(r schema.GroupResource, namespace, name string) (tenant string) {
	switch {
	case namespace != "":
		tenant, _ = space.SplitNamespace(namespace)
	case r == schema.GroupResource{Resource: "namespaces"}:
		tenant, _ = space.SplitNamespace(name)
	default:
		tenant, _ = space.SplitClusterName(name)
	}
	return tenant
}

// ofOwner is the space of an owner, as an object of a space names it.
func (v *View) ofOwner(tenant string, o *metav1.OwnerReference) string {
	var of string
	if o.APIVersion == "v1" && o.Kind == "Namespace" {
		of, _ = space.SplitNamespace(o.Name)
	} else {
		of, _ = space.SplitClusterName(o.Name)
	}
	// A name that says the same space leaves no question.
	if of == tenant || v.namespaced(o) {
		return tenant
	}
	return of
}

// namespaced reports whether an owner is looked for in the namespace of what it owns.
// What nobody knows is found by nobody.
func (v *View) namespaced(o *metav1.OwnerReference) bool {
	gvk := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
	v.mu.Lock()
	if now := v.now(); now.Sub(v.since) > scopesLive { // tenants choose what stands in it
		v.scopes, v.since = map[schema.GroupVersionKind]bool{}, now
	}
	namespaced, known := v.scopes[gvk]
	v.mu.Unlock()
	if known {
		return namespaced
	}
	mapping, err := v.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	namespaced = err != nil || mapping.Scope.Name() == meta.RESTScopeNameNamespace
	v.mu.Lock()
	defer v.mu.Unlock()
	v.scopes[gvk] = namespaced
	return namespaced
}

// graphed are the owners that are in the space of what they own, as the graph has
// them.
func (v *View) graphed(tenant string, owners []metav1.OwnerReference) []metav1.OwnerReference {
	foreign := func(o metav1.OwnerReference) bool { return v.ofOwner(tenant, &o) != tenant }
	if space.IsSystem(tenant) && !slices.ContainsFunc(owners, foreign) {
		return owners
	}
	out := make([]metav1.OwnerReference, 0, len(owners))
	for _, o := range owners {
		if !foreign(o) {
			o.UID = qualify(tenant, o.UID)
			out = append(out, o)
		}
	}
	return out
}

// object is an object of an informer as the graph has it. The object itself is
// not changed: others see it too.
func (v *View) object(r schema.GroupResource, obj any) any {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		last.Obj = v.object(r, last.Obj)
		return last
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return obj // so the collector says
	}
	tenant, owners := spaceOf(r, m.GetNamespace(), m.GetName()), m.GetOwnerReferences()
	graphed := v.graphed(tenant, owners)
	if space.IsSystem(tenant) && len(graphed) == len(owners) {
		return obj
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: m.GetName(), Namespace: m.GetNamespace(), UID: qualify(tenant, m.GetUID()),
		ResourceVersion: m.GetResourceVersion(), DeletionTimestamp: m.GetDeletionTimestamp(),
		Finalizers: m.GetFinalizers(), OwnerReferences: graphed,
	}}
}

// answer changes what the API answered into what the collector compares with the
// graph. Owners of other spaces stay, so that they are not written away.
func (v *View) answer(tenant string, m *metav1.PartialObjectMetadata) {
	m.UID = qualify(tenant, m.UID)
	for i := range m.OwnerReferences {
		o := &m.OwnerReferences[i]
		o.UID = qualify(v.ofOwner(tenant, o), o.UID)
	}
}
