package crd

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/discovery"
)

// Some of upstream's controllers work on the custom resources of all spaces,
// and find them by one discovery for all. They take from it that a kind is one
// resource and a resource one kind of one scope; but each space says that for
// itself, and a hostile tenant says whatever harms others. What they are shown
// says nothing that is another's to say:
//
//   - A resource by its plural name, for its objects in namespaces, and by a
//     name of its own, for those without. Its kind is made up, and leads back to
//     this name: what is found by listing is reached in the way it was found.
//   - A kind, for the owners that objects name, as a resource that can only be
//     asked for one object. Which resource that is, is up to the space that the
//     name or namespace is of, at the time of the request.
//
// No CRD can have one of the synthetic names, and none of the names changes its
// meaning when CRDs change: a client with an old document finds the same resource, or
// nothing.
const (
	// clusterSuffix is behind the plural name for objects without namespace.
	clusterSuffix = "~cluster"
	// kindPrefix is before synthetic kinds.
	kindPrefix = "~"
	// byKind is before the name of a kind, and before each of its capital
	// letters, for clients compare resources in small ones. It sorts before
	// all plural names: what comes later in a document prevails where clients
	// guess names.
	byKind = "_"
)

// Composite is a resource as controllers name it.
type Composite struct {
	// Plural is the resource, unless it is asked for by its kind.
	Plural, Kind string
	// Cluster is set for objects without namespace, if asked by plural name.
	Cluster bool
}

// ParseComposite reads the name of a resource as controllers name it.
func ParseComposite(resource string) Composite {
	if kind, ok := strings.CutPrefix(resource, byKind); ok {
		var b strings.Builder
		for i := 0; i < len(kind); i++ {
			if kind[i] == byKind[0] && i+1 < len(kind) {
				i++
				b.WriteString(strings.ToUpper(kind[i : i+1]))
				continue
			}
			b.WriteByte(kind[i])
		}
		return Composite{Kind: b.String()}
	}
	plural, cluster := strings.CutSuffix(resource, clusterSuffix)
	return Composite{Plural: plural, Cluster: cluster}
}

// resourceOfKind is the name by which a kind is asked for.
func resourceOfKind(kind string) string {
	b := []byte(byKind)
	for i := range len(kind) {
		c := kind[i]
		if 'A' <= c && c <= 'Z' {
			b = append(b, byKind[0])
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return string(b)
}

// Excluded reports whether controllers see no CRDs of a group: built-in groups and
// those of aggregated API servers.
func (c *served) Excluded(group string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.excluded(group)
}

func (c *served) excluded(group string) bool {
	if c.builtIn[group] {
		return true
	}
	for _, gv := range c.foreign {
		if gv.Group == group {
			return true
		}
	}
	return false
}

// Groups are those of APIs that are served in any space.
func (c *served) Groups() map[string]bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	groups := maps.Clone(c.builtIn)
	for r := range c.definers {
		groups[r.Group] = true
	}
	for _, gv := range c.foreign {
		groups[gv.Group] = true
	}
	return groups
}

// SetForeign notes that an APIService leads to an aggregated API server, or, with the
// empty version, that it no longer does.
func (c *Catalog) SetForeign(service string, gv schema.GroupVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.foreign[service] == gv {
		return
	}
	if c.unionGeneration++; gv.Empty() {
		delete(c.foreign, service)
	} else {
		c.foreign[service] = gv
	}
}

// composed are CRDs of one resource and scope, or of one kind.
type composed struct {
	named
	of []*apiextensionsv1.CustomResourceDefinition
}

type named struct {
	group, plural, kind string
	scope               apiextensionsv1.ResourceScope
}

// composite builds the synthetic CRDs for controllers, by name.
func (c *resources) composite() []*apiextensionsv1.CustomResourceDefinition {
	resources, kinds := map[named]*composed{}, map[schema.GroupKind]*composed{}
	for r, definers := range c.definers {
		if c.excluded(r.Group) {
			continue
		}
		for _, crd := range definers {
			key := named{group: r.Group, plural: r.Resource, kind: kindPrefix + r.Resource, scope: crd.Spec.Scope}
			if key.scope != apiextensionsv1.NamespaceScoped {
				key.plural, key.kind = key.plural+clusterSuffix, key.kind+clusterSuffix
			}
			add(resources, key, key, crd)
			gk := schema.GroupKind{Group: r.Group, Kind: crd.Status.AcceptedNames.Kind}
			add(kinds, gk,
				named{group: gk.Group, plural: resourceOfKind(gk.Kind), kind: gk.Kind, scope: crd.Spec.Scope}, crd)
			if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
				// An owner is looked for in the namespace of what it owns: that
				// tells the space, whatever the scope is there.
				kinds[gk].scope = crd.Spec.Scope
			}
		}
	}
	out := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(resources)+len(kinds))
	for _, r := range resources {
		out = append(out, r.definition(false))
	}
	for _, k := range kinds {
		out = append(out, k.definition(true))
	}
	slices.SortFunc(out, func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		return cmp.Compare(a.Name, b.Name)
	})
	return out
}

func add[K comparable](to map[K]*composed, key K, name named, crd *apiextensionsv1.CustomResourceDefinition) {
	if to[key] == nil {
		to[key] = &composed{named: name}
	}
	to[key].of = append(to[key].of, crd)
}

// definition is the synthetic CRD for discovery.
func (d *composed) definition(asked bool) *apiextensionsv1.CustomResourceDefinition {
	versions := map[string]*apiextensionsv1.CustomResourceDefinitionVersion{}
	for _, crd := range d.of {
		for _, v := range crd.Spec.Versions {
			if !v.Served {
				continue
			}
			if versions[v.Name] == nil {
				versions[v.Name] = &apiextensionsv1.CustomResourceDefinitionVersion{Name: v.Name, Served: true}
			}
			if v.Subresources != nil && v.Subresources.Scale != nil && asked {
				// Whose it is, is asked for in its space, too.
				versions[v.Name].Subresources = &apiextensionsv1.CustomResourceSubresources{
					Scale: &apiextensionsv1.CustomResourceSubresourceScale{},
				}
			}
		}
	}
	// Clients guess the singular where there is none.
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: d.plural, Singular: d.plural, Kind: d.kind}
	out := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: d.plural + "." + d.group},
		Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Group: d.group, Names: names, Scope: d.scope},
		Status:     apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: names},
	}
	if asked {
		out.Annotations = map[string]string{discovery.OnlyGet: ""}
	}
	for _, v := range versions {
		out.Spec.Versions = append(out.Spec.Versions, *v)
	}
	slices.SortFunc(out.Spec.Versions, func(a, b apiextensionsv1.CustomResourceDefinitionVersion) int {
		return cmp.Compare(a.Name, b.Name)
	})
	return out
}

// InSpace finds the CRD that serves a resource, or a kind if there is no
// plural name, in one space, which can be the system's. It is nil if there is
// none, or more than one of the kind.
func (c *resources) InSpace(tenant, group string, of Composite) *apiextensionsv1.CustomResourceDefinition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if of.Kind == "" {
		return c.inSpace(tenant, schema.GroupResource{Group: group, Resource: of.Plural})
	}
	var found *apiextensionsv1.CustomResourceDefinition
	look := func(r schema.GroupResource) (ambiguous bool) {
		if r.Group != group {
			return false
		}
		crd := c.inSpace(tenant, r)
		if crd == nil || crd.Status.AcceptedNames.Kind != of.Kind {
			return false
		}
		ambiguous = found != nil && resourceOf(found) != resourceOf(crd)
		found = crd
		return ambiguous
	}
	if defs := c.local[tenant]; defs != nil {
		for r := range defs.byResource {
			if look(r) {
				return nil
			}
		}
	}
	for r := range c.system {
		if look(r) {
			return nil
		}
	}
	return found
}

func (c *resources) inSpace(tenant string, r schema.GroupResource) *apiextensionsv1.CustomResourceDefinition {
	if !space.IsSystem(tenant) {
		_, crd := c.serving(tenant, r)
		return crd
	}
	if s := c.system[r]; s != nil && established(s.crd) {
		return s.crd
	}
	return nil
}

// SeesNamespaced reports whether the CRD that is made up of all has
// namespaces. What is asked of it can then be without.
func (c *served) SeesNamespaced(r schema.GroupResource) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	union := c.union[r]
	return union != nil && union.Spec.Scope == apiextensionsv1.NamespaceScoped
}
