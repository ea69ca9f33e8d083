package wire

import (
	"errors"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestWallV7Protobuf: no list is taken, and schemas in schemas not without end:
// upstream's readers have no limit but that of the stack.
func TestWallV7Protobuf(t *testing.T) {
	r := Resource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
		Kind: "CustomResourceDefinition"}
	p := protoProjector("t1")
	below := map[string]func(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps{
		"not": func(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
			return apiextensionsv1.JSONSchemaProps{Not: &s}
		},
		"properties": func(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
			return apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": s}}
		},
		"items": func(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
			return apiextensionsv1.JSONSchemaProps{
				Items: &apiextensionsv1.JSONSchemaPropsOrArray{JSONSchemas: []apiextensionsv1.JSONSchemaProps{s}},
			}
		},
		"dependencies": func(s apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
			return apiextensionsv1.JSONSchemaProps{
				Dependencies: apiextensionsv1.JSONSchemaDependencies{"a": {Schema: &s}},
			}
		},
	}
	for name, under := range below {
		for levels, want := range map[int]error{1: nil, 90: nil, 1000: ErrMalformed} {
			schema := apiextensionsv1.JSONSchemaProps{Type: "object"}
			for range levels {
				schema = under(schema)
			}
			d := &apiextensionsv1.CustomResourceDefinition{}
			d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1",
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema}}}
			if _, err := p.Proto(In, r, seal(t, "apiextensions.k8s.io/v1", r.Kind, d)); !errors.Is(err, want) {
				t.Errorf("%d levels of %s: %v", levels, name, err)
			}
		}
	}
	list := seal(t, "v1", "PodList", &corev1.PodList{Items: []corev1.Pod{{}}})
	if _, err := p.Proto(In, podKind(), list); !errors.Is(err, ErrMalformed) {
		t.Errorf("a list is taken: %v", err)
	}
	if _, err := p.Proto(Out, podKind(), list); err != nil {
		t.Error(err)
	}
	for n, want := range map[int]error{maxMembers: nil, maxMembers + 1: ErrTooLarge} {
		c := &corev1.ConfigMap{Data: map[string]string{}}
		for i := range n - 1 { // and its metadata
			c.Data[strconv.Itoa(i)] = ""
		}
		r := Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}
		message := seal(t, "v1", "ConfigMap", c)
		if _, err := p.Proto(In, r, message); !errors.Is(err, want) {
			t.Errorf("%d fields: %v", n, err)
		}
		if _, err := p.Proto(Out, r, message); err != nil {
			t.Error(err)
		}
	}
}
