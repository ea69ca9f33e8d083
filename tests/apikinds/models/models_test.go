package models

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
	groupregistry "github.com/a4s-io/a4s/server/groups/registry"
	"github.com/a4s-io/a4s/server/partition/allocations"
	allocationregistry "github.com/a4s-io/a4s/server/partition/allocations/registry"
	partitionregistry "github.com/a4s-io/a4s/server/partition/registry"
	tenantregistry "github.com/a4s-io/a4s/server/tenancy/tenants/registry"
)

// refers collects what a schema refers to.
func refers(s *spec.Schema, to map[string]bool) {
	if name := s.Ref.String(); name != "" {
		to[name] = true
	}
	if s.Items != nil {
		refers(s.Items.Schema, to)
	}
	if s.AdditionalProperties != nil {
		refers(s.AdditionalProperties.Schema, to)
	}
	for _, p := range s.Properties {
		refers(&p, to)
	}
}

// TestModelsHaveEveryField: a field without a model is refused by the server, and lost by
// server-side apply.
func TestModelsHaveEveryField(t *testing.T) {
	ref := func(name string) spec.Ref { return spec.MustCreateRef(name) }
	models := tenantregistry.Definitions(ref)
	maps.Copy(models, groupregistry.Definitions(ref))
	maps.Copy(models, partitionregistry.Definitions(ref))
	maps.Copy(models, allocationregistry.Definitions(ref))
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		tenantapi.AddToScheme, partitionapi.AddToScheme, allocations.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for _, typ := range s.KnownTypes(schema.GroupVersion{Version: "v1"}) {
		compare(t, typ, models, seen)
	}
	for name, model := range models {
		if !seen[name] {
			t.Errorf("there is a model %s, and no type", name)
		}
		to := map[string]bool{}
		refers(&model.Schema, to)
		if got := slices.Compact(slices.Sorted(slices.Values(model.Dependencies))); !slices.Equal(got,
			slices.Sorted(maps.Keys(to))) {
			t.Errorf("%s depends on %v, refers to %v", name, got, slices.Sorted(maps.Keys(to)))
		}
	}
}

// compare looks at a type and at those of its fields.
func compare(t *testing.T, typ reflect.Type, models map[string]common.OpenAPIDefinition, seen map[string]bool) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		compare(t, typ.Elem(), models, seen)
	case reflect.Struct:
		named, ok := reflect.Zero(typ).Interface().(interface{ OpenAPIModelName() string })
		if !ok || !strings.HasPrefix(named.OpenAPIModelName(), "io.a4s.") || seen[named.OpenAPIModelName()] {
			return // upstream's
		}
		name := named.OpenAPIModelName()
		seen[name] = true
		var want []string
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Name == "TypeMeta" {
				want = append(want, "apiVersion", "kind")
				continue
			}
			json, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			want = append(want, json)
			compare(t, f.Type, models, seen)
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(models[name].Schema.Properties)); !slices.Equal(got, want) {
			t.Errorf("the model %s has %v, the type has %v", name, got, want)
		}
	}
}
