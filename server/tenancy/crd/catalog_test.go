package crd

import (
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/edge"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

var _ edge.CustomResources = (*Catalog)(nil)

type tenants map[string]*tenantapi.Tenant

func (t tenants) Known(name string) *tenantapi.Tenant { return t[name] }

var foos = schema.GroupResource{Group: "example.com", Resource: "foos"}

// definition is one of foos that is established, of a tenant or of the system.
func definition(
	tenant string, annotations map[string]string, scope apiextensionsv1.ResourceScope, versions ...string,
) *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: "foos", Singular: "foo", Kind: "Foo",
		ListKind: "FooList"}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: space.ClusterName(tenant, "foos.example.com"),
			UID: types.UID("of " + tenant), Annotations: annotations},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com", Names: names, Scope: scope},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: names,
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
			}},
	}
	if tenant != space.System {
		crd.Labels = map[string]string{space.Label: tenant}
	}
	for i, v := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions,
			apiextensionsv1.CustomResourceDefinitionVersion{Name: v, Served: true, Storage: i == 0})
	}
	return crd
}

func newCatalog(of tenants) *Catalog {
	log := logrus.New()
	log.Out = io.Discard
	return NewCatalog(of, logrus.NewEntry(log))
}

// What serves a tenant follows CRDs, sharing and policies, and whoever
// has to know is told.
func TestCatalogFollows(t *testing.T) {
	of := tenants{"a": {ObjectMeta: metav1.ObjectMeta{Name: "a"}}, "b": {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	c := newCatalog(of)
	var told []string
	c.OnServing(func(tenant string, r schema.GroupResource) { told = append(told, tenant+" "+r.Resource) })
	check := func(step string, a, b Source, tell ...string) {
		t.Helper()
		for tenant, want := range map[string]Source{"a": a, "b": b} {
			if got, _ := c.Serving(tenant, foos); got != want {
				t.Errorf("%s: %s is served by %d, want %d", step, tenant, got, want)
			}
		}
		if !slices.Equal(told, tell) {
			t.Errorf("%s: told %q, want %q", step, told, tell)
		}
		told = nil
	}
	shared := map[string]string{SharingPolicy: Optional, RangeNames: "a"}
	check("nothing", Nobody, Nobody)
	c.setSystem(definition(space.System, nil, "Namespaced", "v1"), true)
	check("the system's own", Nobody, Nobody, " foos")
	if k, ok := c.Resource("a", "example.com", "foos"); !ok || k.Class != kinds.System {
		t.Errorf("the system's own as a tenant has it: %+v, %t", k, ok)
	}
	c.setSystem(definition(space.System, shared, "Namespaced", "v1"), true)
	check("shared with a", System, Nobody, " foos")
	c.setLocal(definition("a", nil, "Cluster", "v2"), true)
	check("its own", Local, Nobody, "a foos")
	if k, ok := c.Kind("a", "example.com", "FooList"); !ok || k.Namespaced {
		t.Errorf("kind of a: %+v, %t", k, ok)
	}
	before := of["a"]
	of["a"] = &tenantapi.Tenant{ObjectMeta: before.ObjectMeta,
		Spec: tenantapi.TenantSpec{CRDPolicy: tenantapi.SystemCRDFirst}}
	c.TenantChanged(before, of["a"])
	check("its policy", System, Nobody, "a ")
	c.TenantChanged(of["a"], of["a"])
	check("no change", System, Nobody)
	c.setSystem(definition(space.System, map[string]string{SharingPolicy: Forced}, "Namespaced", "v1"), true)
	check("forced", System, System, " foos")
	if !c.ForcedByName("foos.example.com") || c.ForcedByName("bars.example.com") {
		t.Error("forced names")
	}
	c.setSystem(definition(space.System, nil, "Namespaced", "v1"), false)
	check("taken back", Local, Nobody, " foos")
	c.setLocal(definition("a", nil, "Cluster", "v2"), false)
	check("gone", Nobody, Nobody, "a foos")
}

// What was not there and does not come is told to nobody who would have to do with it.
func TestCatalogFollowsWhatIsUnknown(t *testing.T) {
	c := newCatalog(tenants{})
	c.OnLocal(func(_ string, old, crd *apiextensionsv1.CustomResourceDefinition) {
		t.Errorf("told of %v, %v", old, crd)
	})
	c.setLocal(definition("a", nil, "Namespaced", "v1"), false)
}

// An API server that begins anew finds nothing of the one before it.
func TestCatalogBeginsAnew(t *testing.T) {
	c := newCatalog(tenants{})
	told := 0
	c.OnServing(func(string, schema.GroupResource) { told++ })
	c.setSystem(definition(space.System, map[string]string{SharingPolicy: Forced}, "Namespaced", "v1"), true)
	c.setLocal(definition("a", nil, "Namespaced", "v1"), true)
	told = 0
	c.Reset()
	united := 0
	c.OnUnion(func(old, _ *apiextensionsv1.CustomResourceDefinition) {
		if united++; old != nil {
			t.Error("it was there before")
		}
	})
	if s, _ := c.Serving("a", foos); s != Nobody || c.Unites(foos) {
		t.Error("something is left")
	}
	c.setLocal(definition("a", nil, "Namespaced", "v1"), true)
	if s, _ := c.Serving("a", foos); s != Local || united != 1 || told != 0 {
		t.Errorf("served by %d, united %d times, told %d times", s, united, told)
	}
}

// Definitions are handed out under the names that tenants gave them, and what
// came in stays as it is.
func TestCatalogHandsOutNativeDefinitions(t *testing.T) {
	c := newCatalog(nil)
	in := definition("a", nil, "Namespaced", "v1")
	in.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{
			Service: &apiextensionsv1.ServiceReference{Namespace: "default.a", Name: "converts"},
		},
	}}
	kept := in.DeepCopy()
	c.setLocal(in, true)
	out := c.CRDs("a")
	if len(out) != 1 || out[0].Name != "foos.example.com" || len(out[0].Labels) > 0 ||
		out[0].Spec.Conversion.Webhook.ClientConfig.Service.Namespace != "default" {
		t.Errorf("handed out: %+v", out)
	}
	if fmt.Sprint(in) != fmt.Sprint(kept) {
		t.Error("what came in was changed")
	}
	if len(c.CRDs("b")) > 0 || c.HasGroup("b", "example.com") || !c.HasGroup("a", "example.com") {
		t.Error("another tenant has it")
	}
	if group, ok := c.GroupOf("a", in.Spec.Names.Kind); !ok || group != "example.com" {
		t.Errorf("the kind is of the group %q", group)
	}
	if group, ok := c.GroupOf("b", in.Spec.Names.Kind); ok {
		t.Errorf("the kind is of the group %q for another tenant", group)
	}
}

// The CRD that the system sees has what all tenants' have, and changes
// only when that does.
func TestUnionOfDefinitions(t *testing.T) {
	c := newCatalog(nil)
	var told []string
	c.OnUnion(func(old, crd *apiextensionsv1.CustomResourceDefinition) {
		switch {
		case old == nil:
			told = append(told, "new")
		case crd == nil:
			told = append(told, "gone")
		default:
			told = append(told, "changed")
		}
	})
	for _, step := range []struct {
		tenant   string
		versions []string
		there    bool
		want     []string
		scope    apiextensionsv1.ResourceScope
		tell     []string
	}{
		{"a", []string{"v1beta1"}, true, []string{"v1beta1"}, "Cluster", []string{"new"}},
		{"b", []string{"v1", "v2"}, true, []string{"v2", "v1", "v1beta1"}, "Namespaced", []string{"changed"}},
		{"c", []string{"v1"}, true, []string{"v2", "v1", "v1beta1"}, "Namespaced", nil},
		{"b", []string{"v1", "v2"}, false, []string{"v1", "v1beta1"}, "Namespaced", []string{"changed"}},
		{"c", []string{"v1"}, false, []string{"v1beta1"}, "Cluster", []string{"changed"}},
		{"a", []string{"v1beta1"}, false, nil, "", []string{"gone"}},
	} {
		scope := apiextensionsv1.NamespaceScoped
		if step.tenant == "a" {
			scope = apiextensionsv1.ClusterScoped
		}
		told = nil
		c.setLocal(definition(step.tenant, nil, scope, step.versions...), step.there)
		if !slices.Equal(told, step.tell) {
			t.Errorf("%s %t: told %q", step.tenant, step.there, told)
		}
		union := c.union[foos]
		if step.want == nil {
			if union != nil || len(c.CRDs(space.All)) > 0 {
				t.Errorf("left: %v", union)
			}
			continue
		}
		var got []string
		for _, v := range union.Spec.Versions {
			got = append(got, v.Name)
		}
		if !slices.Equal(got, step.want) || union.Spec.Scope != step.scope {
			t.Errorf("%s %t: %v %s", step.tenant, step.there, got, union.Spec.Scope)
		}
	}
}
