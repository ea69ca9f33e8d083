package registry

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestScheduling: what is wrong with the nodes of a tenant, by the fields that it is in.
func TestScheduling(t *testing.T) {
	pool := map[string]string{"example.com/pool": "a"}
	many := map[string]string{}
	for i := range mostOfNodes + 1 {
		many[fmt.Sprint("l", i)] = ""
	}
	tolerates := func(all ...corev1.Toleration) tenantapi.TenantScheduling {
		return tenantapi.TenantScheduling{Tolerations: all}
	}
	seconds := int64(1)
	for name, c := range map[string]struct {
		is     tenantapi.TenantScheduling
		tenant string
		fields []string
	}{
		"nothing":       {},
		"all":           {is: tenantapi.TenantScheduling{NodeSelector: pool, Exclusive: true, Tolerations: tolerates(corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists}).Tolerations}},
		"no labels":     {is: tenantapi.TenantScheduling{Exclusive: true}, fields: []string{"spec.scheduling.nodeSelector"}},
		"a key":         {is: tenantapi.TenantScheduling{NodeSelector: map[string]string{"a b": ""}}, fields: []string{"spec.scheduling.nodeSelector"}},
		"a value":       {is: tenantapi.TenantScheduling{NodeSelector: map[string]string{"a": "b c"}}, fields: []string{"spec.scheduling.nodeSelector"}},
		"many labels":   {is: tenantapi.TenantScheduling{NodeSelector: many}, fields: []string{"spec.scheduling.nodeSelector"}},
		"everything":    {is: tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists})},
		"no key":        {is: tolerates(corev1.Toleration{}), fields: []string{"spec.scheduling.tolerations[0].operator"}},
		"a wrong key":   {is: tolerates(corev1.Toleration{Key: "a b"}), fields: []string{"spec.scheduling.tolerations[0].key"}},
		"an operator":   {is: tolerates(corev1.Toleration{Key: "a", Operator: "Like"}), fields: []string{"spec.scheduling.tolerations[0].operator"}},
		"an effect":     {is: tolerates(corev1.Toleration{Key: "a", Effect: "Sometimes"}), fields: []string{"spec.scheduling.tolerations[0].effect"}},
		"seconds":       {is: tolerates(corev1.Toleration{Key: "a", TolerationSeconds: &seconds}), fields: []string{"spec.scheduling.tolerations[0].effect"}},
		"many":          {is: tolerates(make([]corev1.Toleration, mostOfNodes+1)...), fields: []string{"spec.scheduling.tolerations"}},
		"of the system": {is: tenantapi.TenantScheduling{NodeSelector: pool}, tenant: space.System, fields: []string{"spec.scheduling"}},
	} {
		t.Run(name, func(t *testing.T) {
			tenant := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t1"}}
			if c.tenant != "" {
				tenant.Name = c.tenant
			}
			setDefaults(tenant)
			old := tenant.DeepCopy()
			tenant.Spec.Scheduling = &c.is
			var fields []string
			for _, err := range check(as(), tenant, old) {
				fields = append(fields, err.Field)
			}
			if !slices.Equal(fields, c.fields) {
				t.Errorf("errors in %v, want %v", fields, c.fields)
			}
		})
	}
}

// TestKeepersAreKnown: a tenant that has nodes for itself alone is selected with those that
// all servers know, though nobody has used its space yet.
func TestKeepersAreKnown(t *testing.T) {
	for exclusive, want := range map[bool]string{false: "true", true: "false"} {
		tenant := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t1"}}
		tenant.Spec.Scheduling = &tenantapi.TenantScheduling{Exclusive: exclusive}
		prepareNew(tenant)
		if got := selectable(tenant)[tenantapi.SelectDormant]; got != want || !tenant.Dormant() {
			t.Errorf("exclusive %t: selected as %s=%s, dormant: %t", exclusive, tenantapi.SelectDormant, got,
				tenant.Dormant())
		}
	}
}
