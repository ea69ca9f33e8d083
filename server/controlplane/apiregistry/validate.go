package apiregistry

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Then is a validation that asks the chain of admission first, which gets a copy, and then
// check, which may read the store.
func Then(validate, check rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj.DeepCopyObject()); err != nil {
				return err
			}
		}
		return check(ctx, obj)
	}
}

// ThenUpdate is Then for an update: update and check get the object and what it was.
func ThenUpdate(update, check rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		if update != nil {
			if err := update(ctx, obj.DeepCopyObject(), old.DeepCopyObject()); err != nil {
				return err
			}
		}
		return check(ctx, obj, old)
	}
}
