package events

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	core "k8s.io/kubernetes/pkg/apis/core"
	eventstore "k8s.io/kubernetes/pkg/registry/core/event/storage"

	"github.com/a4s-io/a4s/internal/space"
)

// Judge has the storage of events in a group of upstream judge native names.
func Judge(group map[string]rest.Storage) error {
	store, ok := group["events"].(*eventstore.REST)
	if !ok {
		return fmt.Errorf("the storage of events is a %T, which cannot be told what names mean", group["events"])
	}
	store.CreateStrategy = creation{store.CreateStrategy}
	store.UpdateStrategy = change{store.UpdateStrategy}
	return nil
}

type creation struct{ rest.RESTCreateStrategy }

// Validate implements rest.RESTCreateStrategy.
func (c creation) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return c.RESTCreateStrategy.Validate(ctx, native(obj))
}

type change struct{ rest.RESTUpdateStrategy }

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (c change) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return c.RESTUpdateStrategy.ValidateUpdate(ctx, native(obj), native(old))
}

// native is an event with the names that its space has for its namespace, and
// for that of its object if that is one of the same space.
func native(obj runtime.Object) runtime.Object {
	event, ok := obj.(*core.Event)
	if !ok {
		return obj
	}
	tenant, namespace := space.SplitNamespace(event.Namespace)
	if space.IsSystem(tenant) {
		return obj
	}
	shown := *event
	shown.Namespace = namespace
	if of, about := space.SplitNamespace(event.InvolvedObject.Namespace); of == tenant {
		shown.InvolvedObject.Namespace = about
	}
	return &shown
}
