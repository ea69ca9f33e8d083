package storage

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/a4s-io/a4s/internal/space"
)

// strict decodes objects of one version only, as a CRD does.
type strict struct {
	runtime.Codec
	version string
}

func (s strict) Decode(
	data []byte, _ *schema.GroupVersionKind, _ runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, gvk, err := unstructured.UnstructuredJSONScheme.Decode(data, nil, nil)
	if err == nil && gvk.Version != s.version {
		err = errors.New("no such version")
	}
	return obj, gvk, err
}

func TestObjectsOfAnotherDefinitionAreTakenOver(t *testing.T) {
	as := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Foo"}
	codec := &adopting{Codec: strict{version: "v1"}, as: as, defined: func(k schema.GroupVersionKind) bool {
		return k.Kind == "Foo" && (k.Version == "v1" || k.Version == "v1alpha1")
	}}
	for in, want := range map[string]string{
		`{"apiVersion":"example.com/v1","kind":"Foo","spec":{"n":1}}`:      "example.com/v1 Foo",
		`{"apiVersion":"example.com/v1beta1","kind":"Foo","spec":{"n":1}}`: "example.com/v1 Foo",
		`{"apiVersion":"example.com/v1","kind":"Fooz","spec":{"n":1}}`:     "example.com/v1 Foo",
		`{"apiVersion":"example.com/v2","kind":"Fooz","spec":{"n":1}}`:     "example.com/v1 Foo",
		// A version that it has is converted or not shown.
		`{"apiVersion":"example.com/v1alpha1","kind":"Foo","spec":{"n":1}}`: "no such version",
		`{"apiVersion":"other.com/v2","kind":"Foo","spec":{"n":1}}`:         "no such version",
		`{"apiVersion":`: "unexpected end",
	} {
		obj, _, err := codec.Decode([]byte(in), nil, nil)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", in, err)
			}
			continue
		}
		u := obj.(*unstructured.Unstructured) //nolint:errcheck // the test fails
		if n, _, _ := unstructured.NestedInt64(u.Object, "spec", "n"); n != 1 ||
			u.GetAPIVersion()+" "+u.GetKind() != want {
			t.Errorf("%s: %v", in, u)
		}
	}
}

// The key of a custom resource is the same whatever the scope that the
// CRD has that looks at it.
func TestSeedCustomResourceKeysWhateverTheDefinition(t *testing.T) {
	for _, c := range []struct{ namespace, name, want, tenant string }{
		{"default.a", "x", "/example.com/foos/a/default/x", "a"},
		{"", "x.a.tenant", "/example.com/foos/a/x", "a"},
		{"default", "x", "/example.com/foos/default/x", space.System},
		{"", "x", "/example.com/foos/x", space.System},
	} {
		for _, layout := range []space.Layout{space.Namespaced, space.ClusterScoped} {
			m := &objectKeys{layout: layout, prefix: "/example.com/foos", custom: true}
			obj := &unstructured.Unstructured{}
			obj.SetNamespace(c.namespace)
			obj.SetName(c.name)
			got, err := m.storedKey(obj, func(runtime.Object) (string, error) {
				if layout == space.Namespaced {
					return m.prefix + "/" + c.namespace + "/" + c.name, nil
				}
				return m.prefix + "/" + c.name, nil
			})
			if err != nil || got != c.want {
				t.Errorf("%s/%s by layout %d: %s, %v", c.namespace, c.name, layout, got, err)
			}
			if tenant := m.tenantOfObject(obj); tenant != c.tenant {
				t.Errorf("%s/%s by layout %d is of %q", c.namespace, c.name, layout, tenant)
			}
		}
	}
}

// What empties a resource whose CRD goes is no request, and reaches the
// system's objects only; a bound storage is always of its tenant.
func TestListsWithoutARequestAreOfOneSpace(t *testing.T) {
	asked := request.WithRequestInfo(t.Context(), &request.RequestInfo{})
	for _, c := range []struct {
		name   string
		m      objectKeys
		in     bool
		tenant string
		ok     bool
	}{
		{"upstream's own", objectKeys{custom: true}, false, space.System, true},
		{"a request", objectKeys{custom: true}, true, "", false},
		{"built in", objectKeys{}, false, "", false},
		{"bound", objectKeys{custom: true, bound: "a"}, false, "a", true},
		{"bound, a request", objectKeys{custom: true, bound: "a"}, true, "a", true},
	} {
		ctx := t.Context()
		if c.in {
			ctx = asked
		}
		if tenant, ok := c.m.addressed(ctx); tenant != c.tenant || ok != c.ok {
			t.Errorf("%s: %q, %t", c.name, tenant, ok)
		}
	}
}

var _ generic.RESTOptionsGetter = uncached{}
