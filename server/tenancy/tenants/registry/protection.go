package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// protectionField is where the field is in managed fields.
const protectionField = "f:deletionProtection"

// beforeApply is the manager that upstream names for fields of a time from which it knows none,
// as of those that a template gave a new Tenant.
const beforeApply = "before-first-apply"

// unprotected lets only a Tenant without protection be deleted, and then asks validate, which is
// the admission of the request. The store calls it with the Tenant as it is in the transaction
// that marks it: nothing can protect it in between. What is being deleted already goes on.
func unprotected(validate rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if t, ok := obj.(*tenantapi.Tenant); ok && t.Protected() && t.DeletionTimestamp.IsZero() {
			return protected(t)
		}
		return validate(ctx, obj)
	}
}

// protected says who protects a tenant, and what to do.
func protected(t *tenantapi.Tenant) error {
	message := fmt.Sprintf("spec.deletionProtection is true, set by %s: to delete the tenant and everything in its "+
		"space, an administrator of the cluster sets it to false first (kubectl patch tenant %s --type merge "+
		`-p '{"spec":{"deletionProtection":false}}')`, protector(t), t.Name)
	err := apierrors.NewForbidden(tenantapi.GroupResource(), t.Name, errors.New(message))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: tenantapi.CauseDeletionProtected, Message: message, Field: "spec.deletionProtection"}}
	return err
}

// protector is with what, and when, the protection was set, as far as the managed fields of the
// Tenant tell. They do not have names of users.
func protector(t *tenantapi.Tenant) string {
	for _, entry := range t.ManagedFields {
		// No need to decode what does not name it.
		if entry.FieldsV1 == nil || !bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(protectionField)) {
			continue
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil || fields.Spec[protectionField] == nil {
			continue
		}
		if entry.Manager == beforeApply {
			break
		}
		by := fmt.Sprintf("an administrator of the cluster with %q", entry.Manager)
		if entry.Time != nil {
			by += " at " + entry.Time.UTC().Format(time.RFC3339)
		}
		return by
	}
	return "an administrator of the cluster, or by the template when the tenant was made"
}
