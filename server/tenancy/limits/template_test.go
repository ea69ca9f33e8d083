package limits

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestLimitsOfATemplate: what the Tenant says goes before its template, and that before the cluster,
// each limit for itself.
func TestLimitsOfATemplate(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	template := &tenantapi.TenantTemplate{Spec: tenantapi.TenantTemplateSpec{Limits: &tenantapi.TenantLimits{
		Pods: number(20), Services: number(21), Share: number(22),
		Quota: map[string]resource.Quantity{"count/jobs.batch": resource.MustParse("23")},
	}}}
	l := New(Options{
		Defaults: &tenantapi.TenantLimits{Pods: number(10), Services: number(11), NodePorts: number(12)},
		Template: func(name string) *tenantapi.TenantTemplate {
			if name == "gold" {
				return template
			}
			return nil
		},
	})
	of := func(t *tenantapi.Tenant) [3]int64 {
		b := l.bounds(t)
		return [3]int64{b[pods], b[services], b[nodePorts]}
	}
	tenant := &tenantapi.Tenant{Spec: tenantapi.TenantSpec{Template: "gold",
		Limits: &tenantapi.TenantLimits{Pods: number(0)}}}
	if got, want := of(tenant), [3]int64{0, 21, 12}; got != want || l.Share(tenant) != 22 {
		t.Errorf("%v, want %v; share %d", got, want, l.Share(tenant))
	}
	if q := l.limitsOf(tenant).Quota["count/jobs.batch"]; q.Value() != 23 {
		t.Errorf("quota %v", q)
	}
	tenant.Spec.Limits = nil
	if got, want := of(tenant), [3]int64{20, 21, 12}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	tenant.Spec.Template = "none"
	if got, want := of(tenant), [3]int64{10, 11, 12}; got != want || l.Share(tenant) != tenantapi.DefaultShare {
		t.Errorf("without its template: %v, want %v; share %d", got, want, l.Share(tenant))
	}
	if got, want := of(nil), [3]int64{10, 11, 12}; got != want {
		t.Errorf("no tenant: %v, want %v", got, want)
	}
	if *template.Spec.Limits.Pods != 20 {
		t.Error("a template was changed")
	}
}

// TestTenantsWithoutATemplatePayNothingForTemplates: their limits are made once, as they are asked for with each
// write.
func TestTenantsWithoutATemplatePayNothingForTemplates(t *testing.T) {
	pods := int64(1)
	defaults := &tenantapi.TenantLimits{Pods: &pods}
	l := New(Options{Defaults: defaults, Template: func(string) *tenantapi.TenantTemplate { return nil }})
	tenant := &tenantapi.Tenant{Spec: tenantapi.TenantSpec{Limits: &tenantapi.TenantLimits{Services: &pods}}}
	var kept *tenantapi.TenantLimits
	once := testing.AllocsPerRun(100, func() { kept = tenant.Spec.Limits.Over(defaults) })
	if got := testing.AllocsPerRun(100, func() { kept = l.limitsOf(tenant) }); got > once || kept == nil {
		t.Errorf("%v allocations, %v with one list", got, once)
	}
}
