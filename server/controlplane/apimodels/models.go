package apimodels

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Builder collects models.
type Builder struct {
	ref common.ReferenceCallback
	out map[string]common.OpenAPIDefinition
	// refs are the models that the next added one depends on.
	refs []string
}

// New makes a builder that refers to models by ref.
func New(ref common.ReferenceCallback) *Builder {
	return &Builder{ref: ref, out: map[string]common.OpenAPIDefinition{}}
}

// Models are those that were added, by name.
func (m *Builder) Models() map[string]common.OpenAPIDefinition { return m.out }

// Add adds the model of an object. Its properties are made before, by the builder.
func (m *Builder) Add(name, description string, required []string, properties map[string]spec.Schema) {
	m.out[name] = common.OpenAPIDefinition{
		Schema: spec.Schema{SchemaProps: spec.SchemaProps{
			Description: description,
			Type:        []string{"object"},
			Required:    required,
			Properties:  properties,
		}},
		Dependencies: m.refs,
	}
	m.refs = nil
}

// Ref is a property that has a model of its own.
func (m *Builder) Ref(description, name string) spec.Schema {
	m.refs = append(m.refs, name)
	return spec.Schema{SchemaProps: spec.SchemaProps{Description: description,
		Default: map[string]any{}, Ref: m.ref(name)}}
}

// Quantity is a property without a default: absent is not 0.
func (m *Builder) Quantity(description string) spec.Schema {
	s := m.Ref(description, resource.Quantity{}.OpenAPIModelName())
	s.Default = nil
	return s
}

// Text is a property that is a string.
func Text(description string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Description: description, Type: []string{"string"}}}
}

// Bool is a property that is true or false.
func Bool(description string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Description: description, Type: []string{"boolean"}}}
}

// Number is a property that is a whole number.
func Number(description string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Description: description,
		Type: []string{"integer"}, Format: "int64"}}
}

// List is a property that is a list of others.
func List(description string, of spec.Schema) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{
		Description: description,
		Type:        []string{"array"},
		Items:       &spec.SchemaOrArray{Schema: &of},
	}}
}

// Map is a property that has others by names of anybody's choice.
func Map(description string, of spec.Schema) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{
		Description:          description,
		Type:                 []string{"object"},
		AdditionalProperties: &spec.SchemaOrBool{Allows: true, Schema: &of},
	}}
}
