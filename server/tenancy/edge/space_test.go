package edge

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"testing"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

func TestOnlyWhatHasASpaceIsServedInOne(t *testing.T) {
	for _, c := range []struct {
		path            string
		customResources CustomResources
		want            bool
	}{
		{"/api/v1/pods", nil, true},
		{"/api/v1/nodes", nil, true}, // refused by the authorizer, with the reason
		{"/apis/customResource.metrics.k8s.io/v1beta1/nodes", nil, false},
		{"/apis/customResource.metrics.k8s.io/v1beta1/nodes/n1", nil, false},
		{"/apis/customResource.metrics.k8s.io/v1beta1/pods", nil, false},
		{"/apis/customResource.metrics.k8s.io/v1beta1/namespaces/default/pods", nil, true},
		{"/apis/example.com/v1/foos", fakeCustomResources{kinds.Kind{Group: "example.com", Resource: "foos",
			Kind: "Foo", Namespaced: true, Class: kinds.Tenant}}, true},
		{"/apis/example.com/v1/namespaces/default/foos", fakeCustomResources{kinds.Kind{Group: "example.com",
			Resource: "foos", Kind: "Foo", Namespaced: true, Class: kinds.System}}, false},
	} {
		e := New(Options{CustomResources: c.customResources})
		r, ok := parsePath(c.path)
		if !ok {
			t.Fatalf("%s is no resource", c.path)
		}
		e.find("t1", &r)
		if got := e.inSpaces(&r); got != c.want {
			t.Errorf("%s: %v", c.path, got)
		}
	}
}

// fakeCustomResources knows one custom resource.
type fakeCustomResources struct{ of kinds.Kind }

func (f fakeCustomResources) Resource(_, group, resource string) (kinds.Kind, bool) {
	return f.of, group == f.of.Group && resource == f.of.Resource
}

func (f fakeCustomResources) Kind(_, group, kind string) (kinds.Kind, bool) {
	return f.of, group == f.of.Group && kind == f.of.Kind
}

func (f fakeCustomResources) GroupOf(_, kind string) (string, bool) {
	return f.of.Group, kind == f.of.Kind
}

func (f fakeCustomResources) HasGroup(_, group string) bool { return group == f.of.Group }

func (f fakeCustomResources) Own(string, string, string) bool { return false }

func (f fakeCustomResources) CRDs(string) []*apiextensionsv1.CustomResourceDefinition { return nil }

func (f fakeCustomResources) Excluded(string) bool { return false }

func (f fakeCustomResources) Generation(string) int64 { return 0 }
