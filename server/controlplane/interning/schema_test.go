package interning

import (
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func newCRD(description string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: objectMeta(),
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1",
					Schema: &apiextensionsv1.CustomResourceValidation{
						OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
							Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
								"spec": {Type: "string", Description: description,
									Default: &apiextensionsv1.JSON{Raw: []byte(`"x"`)}},
							},
						},
					}},
				{Name: "v2"},
			},
		}}
}

func schemaOf(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.JSONSchemaProps {
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

func internalCRD() *apiextensions.CustomResourceDefinition {
	var preset apiextensions.JSON = int64(1)
	return &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{
		Validation: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
			Properties: map[string]apiextensions.JSONSchemaProps{"spec": {Type: "integer", Default: &preset}},
		}},
	}}
}

func TestEqualSchemasAreOne(t *testing.T) {
	p := New()
	a, b, other := newCRD("same"), newCRD("same"), newCRD("other")
	for _, crd := range []*apiextensionsv1.CustomResourceDefinition{a, b, other, a} {
		p.Object(crd)
	}
	if schemaOf(a) != schemaOf(b) {
		t.Error("two copies")
	}
	if !reflect.DeepEqual(a, newCRD("same")) || !reflect.DeepEqual(b, newCRD("same")) ||
		!reflect.DeepEqual(other, newCRD("other")) {
		t.Errorf("changed to %v, %v, %v", a, b, other)
	}
	c, d := internalCRD(), internalCRD()
	p.Object(c)
	p.Object(d)
	if c.Spec.Validation.OpenAPIV3Schema != d.Spec.Validation.OpenAPIV3Schema {
		t.Error("internal: two copies")
	}
	if !reflect.DeepEqual(d, internalCRD()) {
		t.Errorf("internal: changed to %v", d)
	}
}

// A nil list and an empty one are the same in JSON, and not the same schema.
func TestSchemasWithTheSameJSONStayApart(t *testing.T) {
	p := New()
	a, b := newCRD("same"), newCRD("same")
	schemaOf(b).Required = []string{}
	p.Object(a)
	p.Object(b)
	if schemaOf(a).Required != nil || schemaOf(b).Required == nil {
		t.Error("they became the same")
	}
}

func TestSchemasAreNotKept(t *testing.T) {
	p := New()
	for range 100 {
		p.Object(newCRD(strings.Repeat("large", 1000)))
		p.Object(internalCRD())
	}
	left := func() int {
		n := 0
		for _, of := range []sync.Locker{&p.schemas.external.mu, &p.schemas.internal.mu} {
			of.Lock()
			defer of.Unlock()
		}
		n += len(p.schemas.external.values) + len(p.schemas.internal.values)
		return n
	}
	for end := time.Now().Add(time.Minute); left() > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d schemas are in the pool", left())
		}
		runtime.GC()
	}
}
