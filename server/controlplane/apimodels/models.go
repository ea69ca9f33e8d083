package apimodels

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Kind is the model of a kind, and that of its list.
type Kind struct {
	// Name and List are their names.
	Name, List string
	// Description and ListDescription say what they are, Metadata and Items what these
	// fields of theirs have. Without Metadata it is the standard sentence.
	Description, ListDescription, Metadata, Items string
	// Properties are those besides apiVersion, kind and metadata. AddKind adds these.
	Properties map[string]spec.Schema
}

// AddKind adds the models of a kind.
func (m *Builder) AddKind(k Kind) {
	if k.Metadata == "" {
		k.Metadata = "Standard object metadata."
	}
	k.Properties["metadata"] = m.Ref(k.Metadata, metav1.ObjectMeta{}.OpenAPIModelName())
	m.addVersioned(k.Name, k.Description, nil, k.Properties)
	m.addVersioned(k.List, k.ListDescription, []string{"items"}, map[string]spec.Schema{
		"metadata": m.Ref("Standard list metadata.", metav1.ListMeta{}.OpenAPIModelName()),
		"items":    List(k.Items, m.Ref("", k.Name)),
	})
}

func (m *Builder) addVersioned(name, description string, required []string, properties map[string]spec.Schema) {
	properties["apiVersion"] = Text("The version of the schema of this object, v1.")
	properties["kind"] = Text("The kind of this object.")
	m.Add(name, description, required, properties)
}

// Optional is a property without a default: absent is not empty.
func (m *Builder) Optional(description, name string) spec.Schema {
	s := m.Ref(description, name)
	s.Default = nil
	return s
}

// Quantity is a property without a default: absent is not 0.
func (m *Builder) Quantity(description string) spec.Schema {
	return m.Optional(description, resource.Quantity{}.OpenAPIModelName())
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

// Set is a list of texts of which each is there once.
func Set(description string) spec.Schema {
	s := List(description, Text(""))
	s.Extensions = spec.Extensions{"x-kubernetes-list-type": "set"}
	return s
}

// Keyed is a list of objects, of which a property tells them apart.
func Keyed(description, key string, of spec.Schema) spec.Schema {
	s := List(description, of)
	s.Extensions = spec.Extensions{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{key}}
	return s
}

// Merged is Keyed, and strategic patches merge it by the key.
func Merged(description, key string, of spec.Schema) spec.Schema {
	s := Keyed(description, key, of)
	s.Extensions["x-kubernetes-patch-strategy"] = "merge"
	s.Extensions["x-kubernetes-patch-merge-key"] = key
	return s
}

// Map is a property that has others by names of anybody's choice.
func Map(description string, of spec.Schema) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{
		Description:          description,
		Type:                 []string{"object"},
		AdditionalProperties: &spec.SchemaOrBool{Allows: true, Schema: &of},
	}}
}
