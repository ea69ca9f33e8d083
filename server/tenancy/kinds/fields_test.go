package kinds

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// bodies are what is written about objects of other kinds.
func bodies() []schema.GroupKind {
	return []schema.GroupKind{{Group: "policy", Kind: "Eviction"}, {Group: "autoscaling", Kind: "Scale"},
		{Group: "authentication.k8s.io", Kind: "TokenRequest"}}
}

// eachField calls visit for each path that the table has to decide.
func eachField(t reflect.Type, of string, visit func(path string)) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case inner == reflect.TypeFor[metav1.TypeMeta](), of == "" && inner == reflect.TypeFor[metav1.ObjectMeta]():
		case name == "" && f.Anonymous:
			eachField(inner, of, visit)
		case of == "" && (name == "spec" || name == "status") && inner.Kind() == reflect.Struct:
			eachField(inner, name+".", visit)
		default:
			visit(of + name)
		}
	}
}

// TestFieldsAreAllDecided fails when Kubernetes adds a field to a kind, or a kind,
// in whatever version, until somebody has decided who writes it.
func TestFieldsAreAllDecided(t *testing.T) {
	types := maps.Clone(scheme.Scheme.AllKnownTypes())
	types[apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")] =
		reflect.TypeFor[apiextensionsv1.CustomResourceDefinition]()
	types[tenantapi.GroupVersion().WithKind("TenantAccess")] = reflect.TypeFor[tenantapi.TenantAccess]()
	types[tenantapi.GroupVersion().WithKind("TenantUsage")] = reflect.TypeFor[tenantapi.TenantUsage]()
	types[metricsv1beta1.SchemeGroupVersion.WithKind("PodMetrics")] = reflect.TypeFor[metricsv1beta1.PodMetrics]()

	table, written := New(), map[schema.GroupKind]bool{}
	for _, k := range Rows() {
		if k.Class == Tenant {
			written[schema.GroupKind{Group: k.Group, Kind: k.Kind}] = true
		}
	}
	for _, gk := range bodies() {
		written[gk] = true
	}
	used := map[[3]string]bool{}
	seen := map[schema.GroupKind]bool{}
	for gvk, typ := range types {
		if !written[gvk.GroupKind()] {
			continue
		}
		seen[gvk.GroupKind()] = true
		decided, ok := table.FieldsOf(gvk.Group, gvk.Kind)
		if !ok {
			t.Errorf("%s is not decided", gvk.GroupKind())
			continue
		}
		eachField(typ, "", func(path string) {
			if _, ok := decided.Field(path); !ok {
				t.Errorf("%s of %s is not decided", path, gvk)
			}
			used[[3]string{gvk.Group, gvk.Kind, path}] = true
		})
	}
	for gk := range written {
		if !seen[gk] {
			t.Errorf("there are no types of %s", gk)
		}
	}
	twice := map[[3]string]bool{}
	for _, row := range FieldRows() {
		if !written[schema.GroupKind{Group: row.Group, Kind: row.Kind}] {
			t.Errorf("%s of %q is no kind that tenants write", row.Kind, row.Group)
		}
		for _, f := range row.Fields {
			key := [3]string{row.Group, row.Kind, f.Path}
			if !used[key] {
				t.Errorf("%s of %s is no field any more", f.Path, row.Kind)
			}
			if twice[key] {
				t.Errorf("%s of %s is decided twice", f.Path, row.Kind)
			}
			twice[key] = true
		}
	}
}
