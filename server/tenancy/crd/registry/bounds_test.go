package registry

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/crd"
)

func sized(tenant, name string, fields, text int) *apiextensions.CustomResourceDefinition {
	schema := &apiextensions.JSONSchemaProps{Type: "object", Description: strings.Repeat("x", text),
		Properties: map[string]apiextensions.JSONSchemaProps{}}
	for i := range fields {
		schema.Properties[fmt.Sprint("f", i)] = apiextensions.JSONSchemaProps{Type: "string"}
	}
	return &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: space.ClusterName(tenant, name+".example.com")},
		Spec: apiextensions.CustomResourceDefinitionSpec{Group: "example.com",
			Versions: []apiextensions.CustomResourceDefinitionVersion{
				{Name: "v1", Served: true, Storage: true,
					Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: schema}},
			}},
	}
}

func patterned(tenant, name, pattern string) *apiextensions.CustomResourceDefinition {
	c := sized(tenant, name, 1, 1)
	c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["f0"] = apiextensions.JSONSchemaProps{Type: "string",
		Pattern: pattern}
	return c
}

// What is allowed counts although it is not known yet, and what is there can
// become less.
func TestCRDsAreBounded(t *testing.T) {
	b := &bounded{
		bounds: func(string) crd.Bounds {
			return crd.Bounds{CRDs: 3, All: crd.Size{Bytes: 2000, Schemas: 20, Patterns: 300},
				One: crd.Size{Bytes: 1000, Schemas: 11, Patterns: 200}}
		},
		sizes:  func(string) map[string]crd.Size { return nil },
		recent: map[string]map[string]recent{},
	}
	large := sized("a", "foos", 20, 3000)
	for _, c := range []struct {
		what     string
		crd, old *apiextensions.CustomResourceDefinition
		refused  string
	}{
		{"too many bytes", sized("a", "foos", 1, 1000), nil, "a CRD can have 1000 bytes"},
		{"too many fields", sized("a", "foos", 11, 1), nil, "a CRD can have 11 fields"},
		{"too long patterns", patterned("a", "foos", "x{201}"), nil, "the patterns of a CRD can have 200 steps"},
		{"one", sized("a", "foos", 9, 300), nil, ""},
		{"it again", sized("a", "foos", 9, 300), nil, ""},
		{"too many fields in all", sized("a", "bars", 10, 1), nil,
			"all CRDs of a tenant can have 20 fields"},
		{"what raises that", sized("a", "bars", 10, 1), nil, "spec.limits.definitionBytes of the Tenant"},
		{"two", sized("a", "bars", 1, 800), nil, ""},
		{"too many bytes in all", sized("a", "bazs", 1, 800), nil, "all CRDs of a tenant can have 2000 bytes"},
		{"three", sized("a", "bazs", 1, 1), nil, ""},
		{"longer patterns", patterned("a", "bars", "x{190}"), sized("a", "bars", 1, 800), ""},
		{"too long patterns in all", patterned("a", "bazs", "x{190}"), sized("a", "bazs", 1, 1),
			"the patterns of all CRDs of a tenant can have 300 steps"},
		{"no longer than before", patterned("a", "bazs", "x{900}"), patterned("a", "bazs", "y{900}"), ""},
		{"one too many", sized("a", "boos", 1, 1), nil, "can have 3 CRDs"},
		{"of another", sized("b", "boos", 1, 1), nil, ""},
		{"of the system", sized(space.System, "boos", 100, 10000), nil, ""},
		{"larger", sized("a", "bazs", 11, 1), sized("a", "bazs", 1, 1), "a CRD can have 11 fields"},
		{"less than before", sized("a", "foos", 19, 3000), large, ""},
	} {
		var errs string
		if c.old == nil {
			errs = fmt.Sprint(b.checkSize(c.crd, nil))
		} else {
			errs = fmt.Sprint(b.checkSize(c.crd, c.old))
		}
		if c.refused == "" && errs != "[]" || !strings.Contains(errs, c.refused) {
			t.Errorf("%s: %s", c.what, errs)
		}
	}
}
