package provision

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// one is the only tenant that is known.
type one struct {
	//lint:ignore U1000 it has the other methods
	sleepers
	tenant *tenantapi.Tenant
}

func (o one) Known(string) *tenantapi.Tenant { return o.tenant }

func (o one) Get(context.Context, string) (*tenantapi.Tenant, error) { return o.tenant, nil }

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

// TestAllUsersWaitForATemplate, not only those whose requests the space was made for: but not for ever, and not
// those who would make it.
func TestAllUsersWaitForATemplate(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	ready := func(age time.Duration) metav1.Condition {
		c := tenantapi.MadeCondition()
		c.LastTransitionTime = metav1.NewTime(time.Now().Add(-age))
		return c
	}
	applied := metav1.Condition{Type: tenantapi.TemplateApplied, Status: metav1.ConditionTrue}
	for name, c := range map[string]struct {
		template   string
		conditions []metav1.Condition
		waits      bool
	}{
		"a new space":        {"gold", []metav1.Condition{ready(0)}, true},
		"without a template": {"", []metav1.Condition{ready(0)}, false},
		"it has it":          {"gold", []metav1.Condition{ready(0), applied}, false},
		"for too long":       {"gold", []metav1.Condition{ready(time.Hour)}, false},
	} {
		tenant := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t"},
			Spec:   tenantapi.TenantSpec{Template: c.template},
			Status: tenantapi.TenantStatus{Conditions: c.conditions}}
		p := &Provisioner{opts: Options{Tenants: one{tenant: tenant}}}
		if err := p.Ensure(ended, "t"); (err != nil) != c.waits {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.ensure(ended, "t"); err != nil {
			t.Errorf("%s: who makes it gets %v", name, err)
		}
	}
}
