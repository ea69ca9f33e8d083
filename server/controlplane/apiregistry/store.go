package apiregistry

import (
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/a4s-io/a4s/internal/coreapi"
)

// Kind is what the storage of a kind has to know of it.
type Kind[T coreapi.Object] struct {
	// Resource is its name in paths and rules, Singular that for one.
	Resource, Singular string
	// New and NewList make an empty object and an empty list.
	New, NewList func() runtime.Object
	Strategy     Strategy[T]
	Columns      Columns[T]
	// Selectable are the fields besides the name that selectors can select by. Without it
	// there are none.
	Selectable func(T) fields.Set
	// Change, unless it is nil, sets what the store has beyond this.
	Change func(*genericregistry.Store)
}

// Store makes the storage of the kind.
func (k Kind[T]) Store(getter generic.RESTOptionsGetter) (*genericregistry.Store, error) {
	store := &genericregistry.Store{
		NewFunc: k.New, NewListFunc: k.NewList,
		DefaultQualifiedResource:  schema.GroupResource{Resource: k.Resource},
		SingularQualifiedResource: schema.GroupResource{Resource: k.Singular},
		CreateStrategy:            k.Strategy, UpdateStrategy: k.Strategy, DeleteStrategy: k.Strategy,
		TableConvertor: k.Columns,
	}
	if k.Change != nil {
		k.Change(store)
	}
	options := &generic.StoreOptions{RESTOptions: getter, AttrFunc: k.attributes}
	if err := store.CompleteWithOptions(options); err != nil {
		return nil, fmt.Errorf("making the storage of %s: %w", k.Resource, err)
	}
	return store, nil
}

// attributes are what selectors can select by.
func (k Kind[T]) attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	o, ok := obj.(T)
	if !ok {
		return nil, nil, fmt.Errorf("one of the %s is a %T", k.Resource, obj)
	}
	set := fields.Set{}
	if k.Selectable != nil {
		set = k.Selectable(o)
	}
	set["metadata.name"] = o.GetName()
	return o.GetLabels(), set, nil
}
