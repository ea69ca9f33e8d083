package templates

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

func argo() tenantapi.TemplateAccess {
	return tenantapi.TemplateAccess{Name: "argocd-$(tenant.name)", Spec: tenantapi.TenantAccessSpec{
		Tenant: "$(tenant.name)", User: "argocd", Role: "cluster-admin", ExpirationSeconds: new(int64(3600)),
		Secret: tenantapi.AccessSecret{Namespace: "argocd", Name: "cluster-$(tenant.name)",
			Labels: map[string]string{"team": "$(tenant.name)"}}}}
}

func TestCheckAccesses(t *testing.T) {
	type a = tenantapi.TemplateAccess
	// Of a sample, with the longest name of a tenant.
	check := func(is *tenantapi.TenantAccess) (errs field.ErrorList) {
		if len(is.Name) > 63 {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), is.Name, "is too long"))
		}
		if is.Spec.User == "" {
			errs = append(errs, field.Required(field.NewPath("spec", "user"), "name the user"))
		}
		return errs
	}
	for name, c := range map[string]struct {
		change func(*a)
		want   string // "" for none
	}{
		"valid":            {func(*a) {}, ""},
		"one name for all": {func(a *a) { a.Name = "argocd" }, "access[0].name: Invalid"},
		"one Secret":       {func(a *a) { a.Spec.Secret.Name = "x" }, "access[0].spec.secret.name: Invalid"},
		"another namespace": {func(a *a) {
			a.Spec.Secret.Name, a.Spec.Secret.Namespace = "x", "a-$(tenant.name)"
		}, ""},
		"another tenant": {func(a *a) { a.Spec.Tenant = "b" }, "access[0].spec.tenant: Invalid"},
		"by a label":     {func(a *a) { a.Spec.User = "$(tenant.labels['a'])" }, "access[0].spec.user: Invalid"},
		"a long name": {func(a *a) {
			a.Name += strings.Repeat("x", 50)
		}, `access[0].name: Invalid value: "argocd-$(tenant.name)x`},
		"what it says": {func(a *a) { a.Spec.User = "" }, "access[0].spec.user: Required"},
	} {
		is := argo()
		c.change(&is)
		err := CheckAccesses([]a{is}, check, field.NewPath("access")).ToAggregate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for want, accesses := range map[string][]a{
		"access[1].name: Duplicate":        {argo(), argo()},
		"access[1].spec.secret: Duplicate": {argo(), argo()},
		"access: Too many: 17":             make([]a, tenantapi.MaxTemplateAccesses+1),
	} {
		err := CheckAccesses(accesses, check, field.NewPath("access")).ToAggregate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestAccesses(t *testing.T) {
	template := &tenantapi.TenantTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gold"},
		Spec: tenantapi.TenantTemplateSpec{Access: []tenantapi.TemplateAccess{argo()}}}
	got, err := Accesses(template, acme())
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	is := got[0]
	if is.Name != "argocd-acme" || is.Spec.Tenant != "acme" || is.Spec.Secret.Name != "cluster-acme" ||
		is.Spec.Secret.Labels["team"] != "acme" || is.Spec.User != "argocd" || is.Spec.Life() != 3600 {
		t.Errorf("%+v", is)
	}
}

// TestAccessesThatAreTheSame: two that differ in the template are one for a tenant of a certain name.
func TestAccessesThatAreTheSame(t *testing.T) {
	access := func(name, secret string) tenantapi.TemplateAccess {
		return tenantapi.TemplateAccess{Name: name, Spec: tenantapi.TenantAccessSpec{
			Secret: tenantapi.AccessSecret{Namespace: "flux", Name: secret}}}
	}
	for want, other := range map[string]tenantapi.TemplateAccess{
		`spec.access[1]: name: Duplicate value: "a-a"`:             access("$(tenant.name)-a", "x-$(tenant.name)"),
		`spec.access[1]: spec.secret: Duplicate value: "flux/a-a"`: access("b-$(tenant.name)", "$(tenant.name)-a"),
	} {
		template := &tenantapi.TenantTemplate{}
		template.Spec.Access = []tenantapi.TemplateAccess{access("a-$(tenant.name)", "a-$(tenant.name)"), other}
		tenant := &tenantapi.Tenant{}
		for name, same := range map[string]bool{"a": true, "b": false} {
			tenant.Name = name
			got, err := Accesses(template, tenant)
			if same && (err == nil || !strings.Contains(err.Error(), want)) || !same && (err != nil || len(got) != 2) {
				t.Errorf("of tenant %s: %v, %v", name, got, err)
			}
		}
	}
}
