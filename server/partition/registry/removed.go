package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// Delete implements rest.GracefulDeleter. A partition is recorded as removed before it goes:
// without the record it is one that home forgot, and keeps all that it has.
func (r *partitionREST) Delete(
	ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	if name == partitionapi.Home {
		return nil, false, apierrors.NewForbidden(r.DefaultQualifiedResource, name,
			errors.New("it is the partition that keeps the directory"))
	}
	if err := r.withoutTenants(ctx, name); err != nil {
		return nil, false, err
	}
	if options == nil || len(options.DryRun) == 0 {
		if err := r.record(ctx, name, validate, options); err != nil {
			return nil, false, err
		}
	}
	return r.Store.Delete(ctx, name, validate, options)
}

// withoutTenants refuses a partition that has tenants.
func (r *partitionREST) withoutTenants(ctx context.Context, name string) error {
	obj, err := r.placements.List(ctx, nil)
	if err != nil {
		return fmt.Errorf("reading the placements of tenants: %w", err)
	}
	tenants, example := 0, ""
	for i := range obj.(*partitionapi.TenantPlacementList).Items {
		if p := &obj.(*partitionapi.TenantPlacementList).Items[i]; p.Spec.Partition == name {
			tenants, example = tenants+1, p.Name
		}
	}
	if tenants > 0 {
		return apierrors.NewConflict(r.DefaultQualifiedResource, name,
			fmt.Errorf("it has %d tenants, %s for one: delete them first", tenants, example))
	}
	return nil
}

// record takes note of a partition that is about to be removed. What would refuse the removal
// is asked before.
func (r *partitionREST) record(
	ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) error {
	obj, err := r.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return err
	}
	p, ok := obj.(*partitionapi.Partition)
	if !ok {
		return fmt.Errorf("partition %s is a %T", name, obj)
	}
	if options != nil && options.Preconditions != nil {
		pre := options.Preconditions
		if pre.UID != nil && *pre.UID != p.UID ||
			pre.ResourceVersion != nil && *pre.ResourceVersion != p.ResourceVersion {
			return apierrors.NewConflict(r.DefaultQualifiedResource, name,
				errors.New("it is another one than that of the preconditions"))
		}
	}
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return err
		}
	}
	was := partitionapi.RemovedPartition{Name: name, Identity: p.Spec.Identity, At: metav1.NewTime(time.Now())}
	_, _, err = r.Store.Update(ctx, partitionapi.Home, rest.DefaultUpdatedObjectInfo(nil,
		func(_ context.Context, _, home runtime.Object) (runtime.Object, error) {
			home = home.DeepCopyObject()
			home.(*partitionapi.Partition).Spec.Remove(was)
			return home, nil
		}), nil, nil, false, &metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("recording at the home partition that partition %s is removed: %w", name, err)
	}
	return nil
}

// removedError says that a partition may not come back.
func removedError(was partitionapi.RemovedPartition) error {
	return fmt.Errorf("this partition %s was removed from the cluster at %s: move the server directory away to "+
		"begin a new one of its name", was.Name, was.At.UTC().Format(time.RFC3339))
}

func validateRemoved(p *partitionapi.Partition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(p.Spec.Removed) > 0 && p.Name != partitionapi.Home {
		return append(errs, field.Forbidden(path, "the home partition has the record"))
	}
	if len(p.Spec.Removed) > partitionapi.MaxRemoved {
		return append(errs, field.TooMany(path, len(p.Spec.Removed), partitionapi.MaxRemoved))
	}
	seen := map[string]bool{}
	for i, was := range p.Spec.Removed {
		for _, problem := range validation.IsDNS1123Label(was.Name) {
			errs = append(errs, field.Invalid(path.Index(i).Child("name"), was.Name, problem))
		}
		if was.Name == partitionapi.Home || was.Identity == p.Spec.Identity {
			errs = append(errs, field.Forbidden(path.Index(i), "the home partition stays"))
		}
		if was.Identity == "" {
			errs = append(errs, field.Required(path.Index(i).Child("identity"),
				"what told it from others of its name"))
		}
		if seen[was.Identity] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("identity"), was.Identity))
		}
		seen[was.Identity] = true
	}
	return errs
}
