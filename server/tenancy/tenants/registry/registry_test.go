package registry

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

func as(groups ...string) context.Context {
	return genericrequest.WithUser(context.Background(), &user.DefaultInfo{Groups: groups})
}

func limit(n int64) *int64 { return &n }

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*tenantapi.Tenant)
		ctx    context.Context
		field  string // of the one error that is wanted
	}{
		"valid":   {change: func(*tenantapi.Tenant) {}},
		"no name": {func(t *tenantapi.Tenant) { t.Name = "" }, as(), "metadata.name"},
		"a dot":   {func(t *tenantapi.Tenant) { t.Name = "a.b" }, as(), "metadata.name"},
		"too long": {func(t *tenantapi.Tenant) { t.Name = "abcdefghijklmnopqrstuvwxy" },
			as(), "metadata.name"},
		"all": {func(t *tenantapi.Tenant) { t.Name = "all" },
			as(user.SystemPrivilegedGroup), "metadata.name"},
		"system by a user": {func(t *tenantapi.Tenant) { t.Name = "system" }, as("admins"), "metadata.name"},
		"system by itself": {func(t *tenantapi.Tenant) { t.Name = "system" }, as(user.SystemPrivilegedGroup), ""},
		"policy":           {func(t *tenantapi.Tenant) { t.Spec.CRDPolicy = "Mine" }, as(), "spec.crdPolicy"},
		"no level": {func(t *tenantapi.Tenant) { t.Annotations = map[string]string{"a4s.io/pod-security": "none"} },
			as(), "metadata.annotations"},
		"a level": {func(t *tenantapi.Tenant) { t.Spec.PodSecurity = "none" }, as(), "spec.podSecurity"},
		"allowed": {func(t *tenantapi.Tenant) {
			t.Spec.Allow = &tenantapi.TenantAllowances{CSIDrivers: []string{"a", "a"}}
		}, as(), "spec.allow.csiDrivers[1]"},
		"all images": {func(t *tenantapi.Tenant) { t.Spec.Images = []string{"*"} }, as(), ""},
		"all images and one": {func(t *tenantapi.Tenant) { t.Spec.Images = []string{"*", "docker.io"} }, as(),
			"spec.images[0]"},
		"of the system": {func(t *tenantapi.Tenant) {
			t.Name, t.Spec.PodSecurity = "system", "restricted"
		}, as(user.SystemPrivilegedGroup), "spec"},
		"negative limit": {func(t *tenantapi.Tenant) { t.Spec.Limits = &tenantapi.TenantLimits{Objects: limit(-1)} },
			as(), "spec.limits.objects"},
		"no request": {
			func(t *tenantapi.Tenant) { t.Spec.Limits = &tenantapi.TenantLimits{RequestsInFlight: limit(0)} }, as(),
			"spec.limits.requestsInFlight",
		},
		"limits": {func(t *tenantapi.Tenant) {
			t.Spec.Limits = &tenantapi.TenantLimits{Namespaces: limit(0), RequestsInFlight: limit(1)}
		}, as(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			tenant := &tenantapi.Tenant{}
			tenant.Name = "t1"
			tc.change(tenant)
			s := newStrategy()
			s.PrepareForCreate(as(), tenant)
			ctx := tc.ctx
			if ctx == nil {
				ctx = as()
			}
			errs := s.Validate(ctx, tenant)
			if tc.field == "" && len(errs) > 0 || tc.field != "" && (len(errs) != 1 || errs[0].Field != tc.field) {
				t.Errorf("got %v, want an error of field %q", errs, tc.field)
			}
		})
	}
}

func TestUpdatesKeepToTheirPart(t *testing.T) {
	old := &tenantapi.Tenant{}
	old.Name, old.Generation = "t1", 1
	old.Spec.CRDPolicy = tenantapi.LocalCRDFirst
	old.Status.Phase = tenantapi.Active

	changed := old.DeepCopy()
	changed.Spec.CRDPolicy = tenantapi.SystemCRDFirst
	changed.Status.Phase = tenantapi.Terminating
	changed.Labels = map[string]string{"a": "b"}

	spec := changed.DeepCopy()
	newStrategy().PrepareForUpdate(as(), spec, old)
	if spec.Status.Phase != tenantapi.Active || spec.Generation != 2 ||
		spec.Spec.CRDPolicy != tenantapi.SystemCRDFirst || spec.Labels["a"] != "b" {
		t.Errorf("update of the tenant made %+v", spec)
	}
	status := changed.DeepCopy()
	status.Status.Conditions = append(status.Status.Conditions, metav1.Condition{Type: tenantapi.SpaceEmpty})
	statusStrategy{newStrategy()}.PrepareForUpdate(as(), status, old)
	if status.Status.Phase != tenantapi.Active || status.Generation != 1 ||
		status.Spec.CRDPolicy != tenantapi.LocalCRDFirst || len(status.Labels) > 0 ||
		len(status.Status.Conditions) != 1 {
		t.Errorf("update of the status made %+v", status)
	}
}

// TestProtectedTenantsStay: what is protected is not deleted, and the refusal says who set what and
// what to do. Admission does not speak then; of all else it decides as before.
func TestProtectedTenantsStay(t *testing.T) {
	set := metav1.NewTime(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC))
	managed := func(manager, fields string) metav1.ManagedFieldsEntry {
		f := &metav1.FieldsV1{}
		f.SetRawString(fields)
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &set, FieldsV1: f}
	}
	errAdmission := errors.New("admission says no")
	for name, tc := range map[string]struct {
		change func(*tenantapi.Tenant)
		says   []string // nothing if admission decides
	}{
		"free": {change: func(*tenantapi.Tenant) {}},
		"protected": {
			change: func(t *tenantapi.Tenant) { t.Spec.DeletionProtection = new(true) },
			says:   []string{"spec.deletionProtection is true", "set by an administrator", "sets it to false"},
		},
		"by whom": {
			change: func(t *tenantapi.Tenant) {
				t.Spec.DeletionProtection = new(true)
				t.ManagedFields = []metav1.ManagedFieldsEntry{
					managed("other", `{"f:metadata":{"f:annotations":{"f:deletionProtection":{}}}}`),
					managed("flux", `{"f:spec":{"f:deletionProtection":{}}}`)}
			},
			says: []string{`with "flux" at 2026-11-28T12:00:00Z`},
		},
		"by the template": {
			change: func(t *tenantapi.Tenant) {
				t.Spec.DeletionProtection = new(true)
				t.ManagedFields = []metav1.ManagedFieldsEntry{
					managed(beforeApply, `{"f:spec":{"f:deletionProtection":{}}}`)}
			},
			says: []string{"or by the template when the tenant was made: to delete"},
		},
		"on its way": {change: func(t *tenantapi.Tenant) {
			t.Spec.DeletionProtection, t.DeletionTimestamp = new(true), &set
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tenant := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t1"}}
			tc.change(tenant)
			err := unprotected(func(context.Context, runtime.Object) error { return errAdmission })(as(), tenant)
			if len(tc.says) == 0 {
				if !errors.Is(err, errAdmission) {
					t.Errorf("%v", err)
				}
				return
			}
			if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, tenantapi.CauseDeletionProtected) {
				t.Fatalf("%v", err)
			}
			for _, s := range tc.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%v does not say %q", err, s)
				}
			}
		})
	}
	going := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t1", DeletionTimestamp: &set}}
	setDefaults(going)
	late := going.DeepCopy()
	late.Spec.DeletionProtection = new(true)
	if errs := check(as(), late, going); len(errs) != 1 || errs[0].Field != "spec.deletionProtection" {
		t.Errorf("protected too late: %v", errs)
	}
	if errs := check(as(), late, late); len(errs) > 0 {
		t.Errorf("protected before: %v", errs)
	}
}
