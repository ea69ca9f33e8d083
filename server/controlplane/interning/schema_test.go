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

func definition(description string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: objectMeta(), Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
			{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"spec": {Type: "string", Description: description, Default: &apiextensionsv1.JSON{Raw: []byte(`"x"`)}},
				},
			}}},
			{Name: "v2"},
		},
	}}
}

func schemaOf(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.JSONSchemaProps {
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

func internalDefinition() *apiextensions.CustomResourceDefinition {
	var preset apiextensions.JSON = int64(1)
	return &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{
		Validation: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{
			Properties: map[string]apiextensions.JSONSchemaProps{"spec": {Type: "integer", Default: &preset}},
		}},
	}}
}

func TestEqualSchemasAreOne(t *testing.T) {
	p := New()
	a, b, other := definition("same"), definition("same"), definition("other")
	for _, crd := range []*apiextensionsv1.CustomResourceDefinition{a, b, other, a} {
		p.Object(crd)
	}
	if schemaOf(a) != schemaOf(b) {
		t.Error("two copies")
	}
	if !reflect.DeepEqual(a, definition("same")) || !reflect.DeepEqual(b, definition("same")) || !reflect.DeepEqual(other, definition("other")) {
		t.Errorf("changed to %v, %v, %v", a, b, other)
	}
	c, d := internalDefinition(), internalDefinition()
	p.Object(c)
	p.Object(d)
	if c.Spec.Validation.OpenAPIV3Schema != d.Spec.Validation.OpenAPIV3Schema {
		t.Error("internal: two copies")
	}
	if !reflect.DeepEqual(d, internalDefinition()) {
		t.Errorf("internal: changed to %v", d)
	}
}

// A schema that says nothing where another says "empty" is another one, also
// where they are written alike.
func TestSchemasThatAreWrittenAlikeStayApart(t *testing.T) {
	p := New()
	a, b := definition("same"), definition("same")
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
		p.Object(definition(strings.Repeat("large", 1000)))
		p.Object(internalDefinition())
	}
	left := func() int {
		n := 0
		for _, of := range []sync.Locker{&p.schemas.external.mu, &p.schemas.internal.mu} {
			of.Lock()
			defer of.Unlock()
		}
		n += len(p.schemas.external.of) + len(p.schemas.internal.of)
		return n
	}
	for end := time.Now().Add(time.Minute); left() > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d schemas are still known", left())
		}
		runtime.GC()
	}
}
