package crd

import (
	"fmt"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/discovery"
)

// defines is an established CRD.
func defines(
	tenant, plural, group, kind string, scope apiextensionsv1.ResourceScope, versions ...string,
) *apiextensionsv1.CustomResourceDefinition {
	crd := definition(tenant, nil, scope, versions...)
	crd.Name, crd.Spec.Group = space.ClusterName(tenant, plural+"."+group), group
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: "widgets", Kind: kind,
		ListKind: kind + "List"}
	crd.Status.AcceptedNames = crd.Spec.Names
	return crd
}

// TestControllersAreToldNothingThatTenantsCouldSet: whatever others define, a
// kind leads to a resource that each space resolves for itself, and a resource
// to a kind that leads back.
func TestWallV2CompositeIsUnambiguous(t *testing.T) {
	c := newCatalog(nil)
	const group = "victim.io"
	for _, crd := range []*apiextensionsv1.CustomResourceDefinition{
		defines("t1", "widgets", group, "Evil", "Cluster", "v1", "v9"),
		defines("t1", "zwidgets", group, "Widget", "Namespaced", "v1"),
		defines("t1", "awidgets", group, "widget", "Namespaced", "v1"),
		defines("t1", "foos", group, "WidgetList", "Namespaced", "v1"),
		defines("t1", "widgetlists", group, "Foo", "Namespaced", "v1"),
		defines("t1", "zclusterroles", "rbac.authorization.k8s.io", "ClusterRole", "Cluster", "v1"),
		defines("t1", "foreigns", "foreign.io", "Foreign", "Cluster", "v1"),
		defines("t2", "widgets", group, "Widget", "Namespaced", "v1"),
	} {
		c.setLocal(crd, true)
	}
	c.setSystem(defines(space.System, "things", group, "Widget", "Cluster", "v1"), true)
	c.SetForeign("v1.foreign.io", schema.GroupVersion{Group: "foreign.io", Version: "v1"})
	set := discovery.Set(c.CRDs(space.All))
	var groups []*restmapper.APIGroupResources
	for _, g := range set.Groups() {
		r := &restmapper.APIGroupResources{Group: g, VersionedResources: map[string][]metav1.APIResource{}}
		for _, v := range g.Versions {
			r.VersionedResources[v.Version] = set.Resources(schema.GroupVersion{Group: g.Name, Version: v.Version})
		}
		groups = append(groups, r)
	}
	if len(groups) != 1 || groups[0].Group.Name != group {
		t.Fatalf("groups: %v", groups)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for kind, scope := range map[string]string{"Widget": "namespace", "widget": "namespace", "WidgetList": "namespace",
		"Foo": "namespace", "Evil": "root"} {
		m, err := mapper.RESTMapping(schema.GroupKind{Group: group, Kind: kind}, "v1")
		if err != nil || ParseComposite(m.Resource.Resource) != (Composite{Kind: kind}) ||
			string(m.Scope.Name()) != scope {
			t.Errorf("%s is %+v, %v", kind, m, err)
		}
		if m == nil {
			continue
		}
		if full, err := mapper.ResourceFor(schema.GroupVersionResource{Group: group,
			Resource: m.Resource.Resource}); err != nil || full.Resource != m.Resource.Resource {
			t.Errorf("%s is %v, %v", m.Resource, full, err)
		}
	}
	for resource, want := range map[string]string{
		"widgets": "widgets/false/namespace", "widgets~cluster": "widgets/true/root",
		"zwidgets": "zwidgets/false/namespace", "awidgets": "awidgets/false/namespace",
		"foos": "foos/false/namespace", "widgetlists": "widgetlists/false/namespace",
		"things~cluster": "things/true/root",
	} {
		gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
		kind, err := mapper.KindFor(gvr)
		if err != nil {
			t.Errorf("%s: %v", resource, err)
			continue
		}
		m, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil || m.Resource != gvr {
			t.Errorf("%s is of kind %s, which is %+v, %v", resource, kind, m, err)
			continue
		}
		of := ParseComposite(m.Resource.Resource)
		if got := fmt.Sprintf("%s/%t/%s", of.Plural, of.Cluster, m.Scope.Name()); got != want || of.Kind != "" {
			t.Errorf("%s leads to %s", resource, got)
		}
	}
	for _, r := range set.Resources(schema.GroupVersion{Group: group, Version: "v1"}) {
		if ParseComposite(r.Name).Kind != "" && !slices.Equal(r.Verbs, metav1.Verbs{"get"}) {
			t.Errorf("%s can be asked to %v", r.Name, r.Verbs)
		}
	}
	for _, of := range []struct{ tenant, resource, want string }{
		{"t1", resourceOfKind("Widget"), "zwidgets"},
		{"t2", resourceOfKind("Widget"), "widgets"},
		{space.System, resourceOfKind("Widget"), "things"},
		{"t2", resourceOfKind("Evil"), ""},
		{"t2", "zwidgets", ""},
		{"t2", "widgets", "widgets"},
		{space.System, "widgets", ""},
		{"t3", resourceOfKind("Widget"), ""},
	} {
		got := ""
		if crd := c.InSpace(of.tenant, group, ParseComposite(of.resource)); crd != nil {
			got = crd.Spec.Names.Plural
		}
		if got != of.want {
			t.Errorf("%s of %s is %q, want %q", of.resource, of.tenant, got, of.want)
		}
	}
}

// What only the system defines is not united, and what controllers see changes
// when a CRD does in a way that they see.
func TestCompositeFollows(t *testing.T) {
	c := newCatalog(nil)
	united := 0
	c.OnUnion(func(_, _ *apiextensionsv1.CustomResourceDefinition) { united++ })
	for _, step := range []struct {
		name    string
		do      func()
		united  int
		changes bool
	}{
		{"of the system", func() { c.setSystem(definition(space.System, nil, "Namespaced", "v1"), true) }, 0, true},
		{"of a tenant, too", func() { c.setLocal(definition("a", nil, "Namespaced", "v1"), true) }, 1, true},
		{"the same", func() { c.setLocal(definition("a", nil, "Namespaced", "v1"), true) }, 1, false},
		{"of another version", func() { c.setLocal(definition("a", nil, "Namespaced", "v2"), true) }, 2, true},
		{"of the system only", func() { c.setLocal(definition("a", nil, "Namespaced", "v2"), false) }, 3, true},
		{"none", func() { c.setSystem(definition(space.System, nil, "Namespaced", "v1"), false) }, 3, true},
	} {
		before := c.Generation(space.All)
		step.do()
		if changes := c.Generation(space.All) != before; changes != step.changes || united != step.united {
			t.Errorf("%s: changes: %t, united %d times", step.name, changes, united)
		}
	}
}
