package registry

import (
	"context"
	"fmt"
	"strings"
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
	type scheduling = tenantapi.TenantScheduling
	tolerates := func(all ...corev1.Toleration) scheduling { return scheduling{Tolerations: all} }
	labelled := func(key, value string) scheduling {
		return scheduling{NodeSelector: map[string]string{key: value}}
	}
	const exists = corev1.TolerationOpExists
	seconds := int64(1)
	for name, c := range map[string]struct {
		is     scheduling
		tenant string
		field  string // below spec.scheduling
	}{
		"nothing": {},
		"all": {is: scheduling{NodeSelector: pool, Exclusive: true,
			Tolerations: []corev1.Toleration{{Key: "k", Operator: exists}}}},
		"no labels":   {is: scheduling{Exclusive: true}, field: ".nodeSelector"},
		"a key":       {is: labelled("a b", ""), field: ".nodeSelector"},
		"a value":     {is: labelled("a", "b c"), field: ".nodeSelector"},
		"many labels": {is: scheduling{NodeSelector: many}, field: ".nodeSelector"},
		"everything":  {is: tolerates(corev1.Toleration{Operator: exists})},
		"no key":      {is: tolerates(corev1.Toleration{}), field: ".tolerations[0].operator"},
		"a wrong key": {is: tolerates(corev1.Toleration{Key: "a b"}), field: ".tolerations[0].key"},
		"an operator": {is: tolerates(corev1.Toleration{Key: "a", Operator: "Like"}),
			field: ".tolerations[0].operator"},
		"an effect": {is: tolerates(corev1.Toleration{Key: "a", Effect: "Soon"}), field: ".tolerations[0].effect"},
		"seconds": {is: tolerates(corev1.Toleration{Key: "a", TolerationSeconds: &seconds}),
			field: ".tolerations[0].effect"},
		"many":          {is: tolerates(make([]corev1.Toleration, mostOfNodes+1)...), field: ".tolerations"},
		"of the system": {is: scheduling{NodeSelector: pool}, tenant: space.System, field: "."},
	} {
		t.Run(name, func(t *testing.T) {
			tenant := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t1"}}
			if c.tenant != "" {
				tenant.Name = c.tenant
			}
			setDefaults(tenant)
			old := tenant.DeepCopy()
			tenant.Spec.Scheduling = &c.is
			errs := check(as(), tenant, old)
			want := strings.TrimSuffix("spec.scheduling"+c.field, ".")
			if c.field == "" && len(errs) > 0 || c.field != "" && (len(errs) != 1 || errs[0].Field != want) {
				t.Errorf("got %v, want an error of %q", errs, c.field)
			}
		})
	}
}

// TestWarningsOfNodes: who keeps nodes by labels that all have is told so, once.
func TestWarningsOfNodes(t *testing.T) {
	none := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t1"}}
	with := func(exclusive bool, keys ...string) *tenantapi.Tenant {
		t := none.DeepCopy()
		t.Spec.Scheduling = &tenantapi.TenantScheduling{Exclusive: exclusive, NodeSelector: map[string]string{}}
		for _, key := range keys {
			t.Spec.Scheduling.NodeSelector[key] = "x"
		}
		return t
	}
	s, broad := newStrategy(), with(true, corev1.LabelOSStable, corev1.LabelArchStable)
	for name, c := range map[string]struct {
		got  []string
		want int
	}{
		"new":         {s.WarningsOnCreate(as(), broad), 1},
		"later":       {s.WarningsOnUpdate(as(), broad, none), 1},
		"again":       {s.WarningsOnUpdate(as(), broad, broad.DeepCopy()), 0},
		"shared":      {s.WarningsOnCreate(as(), with(false, corev1.LabelOSStable)), 0},
		"a label":     {s.WarningsOnCreate(as(), with(true, corev1.LabelOSStable, "pool")), 0},
		"none at all": {s.WarningsOnCreate(as(), none), 0},
	} {
		if len(c.got) != c.want {
			t.Errorf("%s: %q", name, c.got)
		}
	}
}

// TestKeepersAreNeverDormant: the space of a tenant that has nodes for itself alone is made at
// once, however it came to have them and whatever its status is said to be.
func TestKeepersAreNeverDormant(t *testing.T) {
	dormant := tenantapi.DormantCondition(metav1.Now())
	made := func(exclusive bool, conditions ...metav1.Condition) *tenantapi.Tenant {
		t := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t1"}}
		t.Spec.Scheduling = &tenantapi.TenantScheduling{Exclusive: exclusive}
		t.Status.Conditions = conditions
		return t
	}
	for name, c := range map[string]struct {
		do   func() *tenantapi.Tenant
		want bool
	}{
		"another, new": {func() *tenantapi.Tenant {
			t := made(false)
			prepareNew(t)
			return t
		}, true},
		"new": {func() *tenantapi.Tenant {
			t := made(true)
			prepareNew(t)
			return t
		}, false},
		"new, with a status": {func() *tenantapi.Tenant {
			t := made(true, dormant)
			prepareNew(t)
			return t
		}, false},
		"another, changed": {func() *tenantapi.Tenant {
			t := made(false)
			prepareChanged(t, made(false, dormant))
			return t
		}, true},
		"later": {func() *tenantapi.Tenant {
			t := made(true, dormant)
			prepareChanged(t, made(false, dormant))
			return t
		}, false},
		"by its status": {func() *tenantapi.Tenant {
			t := made(true, dormant)
			statusStrategy{newStrategy()}.PrepareForUpdate(context.Background(), t, made(true))
			return t
		}, false},
	} {
		tenant := c.do()
		got := selectable(tenant)[tenantapi.SelectDormant]
		if got != fmt.Sprint(c.want) || tenant.Dormant() != c.want || tenant.Made() {
			t.Errorf("%s: %s=%s, dormant: %t, made: %t", name, tenantapi.SelectDormant, got, tenant.Dormant(),
				tenant.Made())
		}
	}
	tenant := made(true)
	prepareChanged(tenant, made(false, tenantapi.MadeCondition()))
	if !tenant.Made() {
		t.Error("a space that is made is made again")
	}
}
