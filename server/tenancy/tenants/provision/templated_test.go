package provision

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// one is the only tenant that is known.
type one struct {
	sleepers
	tenant *tenantapi.Tenant
}

func (o one) Known(string) *tenantapi.Tenant { return o.tenant }

// TestTemplatesAreWaitedFor until the condition says that the objects are there, or why not.
func TestTemplatesAreWaitedFor(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	now := metav1.Now()
	said := tenantapi.TenantStatus{Conditions: []metav1.Condition{
		{Type: tenantapi.TemplateApplied, Status: metav1.ConditionFalse}}}
	for name, c := range map[string]struct {
		tenant *tenantapi.Tenant
		done   bool
	}{
		"without a template": {&tenantapi.Tenant{}, true},
		"gone":               {nil, true},
		"not yet":            {&tenantapi.Tenant{Spec: tenantapi.TenantSpec{Template: "gold"}}, false},
		"in vain":            {&tenantapi.Tenant{Spec: tenantapi.TenantSpec{Template: "gold"}, Status: said}, true},
		"deleted": {&tenantapi.Tenant{Spec: tenantapi.TenantSpec{Template: "gold"},
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, true},
	} {
		p := &Provisioner{opts: Options{Tenants: one{tenant: c.tenant}}}
		if got := p.templated(ended, "t"); got != c.done {
			t.Errorf("%s: %v", name, got)
		}
	}
}
