package registry

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
