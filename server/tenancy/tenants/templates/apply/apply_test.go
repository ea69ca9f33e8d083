package apply

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

func TestUnionAndWithout(t *testing.T) {
	type ref = tenantapi.TemplateObject
	a, b, c := ref{Name: "a"}, ref{Name: "b"}, ref{Name: "c"}
	known := ref{Name: "b", UID: "u"}
	list := func(o ...ref) []ref { return o }
	if got := union(list(a, b), list(b, c), list(known)); !slices.Equal(got, list(a, known, c)) {
		t.Errorf("union: %v", got)
	}
	if got := without(list(a, b), list(known, c)); !slices.Equal(got, list(a)) {
		t.Errorf("without: %v", got)
	}
}

// TestMarks: only who takes fields from our manager has changed an object, in whatever order the watch and
// the answers to applications are.
func TestMarks(t *testing.T) {
	const tenant = "t"
	ref := tenantapi.TemplateObject{Kind: "ResourceQuota", Name: "q"}
	is := func(version, fields string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version,
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: manager, Operation: metav1.ManagedFieldsOperationApply,
					FieldsV1: metav1.NewFieldsV1(fields)},
				{Manager: "other", FieldsV1: metav1.NewFieldsV1(version)},
			}}}
	}
	for name, steps := range map[string]string{
		"the watch comes later":  "applied 1,shown 1 a no,shown 2 a no,shown 3 b yes",
		"the watch comes before": "shown 1 a no,applied 1,shown 2 a no,shown 3 b yes",
		"nothing is known":       "shown 1 a no,shown 2 b no",
		"it changed meanwhile":   "shown 1 a no,shown 2 b no,applied 3,shown 3 a no,shown 4 b yes",
		"mended":                 "applied 1,shown 1 a no,shown 2 b yes,applied 3,shown 3 a no,shown 4 a no",
		"the template changed":   "applied 1,shown 1 a no,applied 2,shown 2 b no,shown 3 b no,shown 4 a yes",
		"the watch is behind":    "applied 1,shown 1 a no,applied 3,shown 2 a yes,shown 3 a no",
		"applied in vain":        "applied 1,shown 1 a no,shown 2 a no,applied 2,shown 3 a no",
	} {
		m := newMarks()
		for step := range strings.SplitSeq(steps, ",") {
			words := strings.Fields(step)
			if words[0] == "applied" {
				m.applied(tenant, ref, "u", words[1])
				continue
			}
			if got := m.changed(tenant, ref, is(words[1], words[2])); got != (words[3] == "yes") {
				t.Errorf("%s: %q: %v", name, step, got)
			}
		}
		m.keep(tenant, []tenantapi.TemplateObject{ref})
		if m.tenants[tenant][ref] == nil {
			t.Errorf("%s: it is forgotten", name)
		}
		m.keep(tenant, nil)
		if m.tenants[tenant][ref] != nil {
			t.Errorf("%s: it is kept", name)
		}
	}
}

// TestTenantsWaitForTheirTurn: nothing that happens at a tenant brings it a changed template before.
func TestTenantsWaitForTheirTurn(t *testing.T) {
	template := &tenantapi.TenantTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gold", UID: "u", Generation: 2}}
	tenant := func(name string, uid types.UID, generation int64, reason string) *tenantapi.Tenant {
		out := &tenantapi.Tenant{Status: tenantapi.TenantStatus{
			Template: &tenantapi.AppliedTemplate{Name: name, UID: uid, Generation: generation}}}
		if reason != "" {
			out.Status.Conditions = []metav1.Condition{{Type: tenantapi.TemplateApplied, Reason: reason}}
		}
		return out
	}
	for name, c := range map[string]struct {
		tenant *tenantapi.Tenant
		waits  bool
	}{
		"new":               {&tenantapi.Tenant{}, false},
		"begun":             {tenant("gold", "u", 0, ""), false},
		"current":           {tenant("gold", "u", 2, tenantapi.ReasonApplied), false},
		"failed":            {tenant("gold", "u", 2, tenantapi.ReasonNotApplied), false},
		"of another one":    {tenant("silver", "v", 1, tenantapi.ReasonApplied), false},
		"it was not there":  {tenant("gold", "u", 1, tenantapi.ReasonNoTemplate), false},
		"behind":            {tenant("gold", "u", 1, tenantapi.ReasonApplied), true},
		"behind and failed": {tenant("gold", "u", 1, tenantapi.ReasonNotApplied), true},
		"made anew":         {tenant("gold", "v", 2, tenantapi.ReasonApplied), true},
	} {
		if got := waits(c.tenant, template); got != c.waits {
			t.Errorf("%s: %v", name, got)
		}
	}
	all := turns{tenants: map[string]turn{}}
	all.give(template, "a")
	newer := template.DeepCopy()
	newer.Generation++
	if !all.has(template, "a") || all.has(newer, "a") || all.has(template, "b") {
		t.Errorf("the turns are %v", all.tenants)
	}
	if all.forget("a"); all.has(template, "a") {
		t.Error("a turn stays")
	}
}

func TestRollOutsGoInWaves(t *testing.T) {
	template := &tenantapi.TenantTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gold", UID: "u", Generation: 2},
		Spec: tenantapi.TenantTemplateSpec{AtATime: 2}}
	tenant := func(name string, generation int64, applied metav1.ConditionStatus) *tenantapi.Tenant {
		return &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: tenantapi.TenantSpec{Template: "gold"},
			Status: tenantapi.TenantStatus{
				Template: &tenantapi.AppliedTemplate{Name: "gold", UID: "u", Generation: generation},
				Conditions: []metav1.Condition{
					{Type: tenantapi.SpaceReady, Status: metav1.ConditionTrue, Reason: tenantapi.ReasonMade},
					{Type: tenantapi.TemplateApplied, Status: applied, Message: "why " + name},
				}}}
	}
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	dormant, deleted := tenant("d", 1, yes), tenant("e", 1, yes)
	other, system := tenant("f", 1, yes), tenant("system", 1, yes)
	dormant.Status.Conditions[0].Reason = tenantapi.ReasonDormant
	deleted.DeletionTimestamp = &metav1.Time{}
	*deleted.DeletionTimestamp = metav1.Now()
	other.Spec.Template = "silver"
	remade := tenant("z", 2, yes)
	remade.Status.Template.UID = "v"
	without := tenant("y", 2, no)
	without.Status.Conditions[1].Reason = tenantapi.ReasonNoTemplate
	for name, c := range map[string]struct {
		tenants []*tenantapi.Tenant
		next    string
		message string
		reason  string
	}{
		"none": {nil, "", "0 of 0 tenants have generation 2", tenantapi.ReasonApplied},
		"all":  {[]*tenantapi.Tenant{tenant("a", 2, yes)}, "", "1 of 1", tenantapi.ReasonApplied},
		"first": {[]*tenantapi.Tenant{tenant("c", 1, yes), tenant("b", 1, no), tenant("a", 1, yes)}, "a b", "0 of 3",
			tenantapi.ReasonProgressing},
		"next": {[]*tenantapi.Tenant{tenant("c", 1, yes), tenant("b", 2, yes), tenant("a", 1, yes)}, "a c", "1 of 3",
			tenantapi.ReasonProgressing},
		"stopped": {[]*tenantapi.Tenant{tenant("c", 1, yes), tenant("b", 2, no), tenant("a", 2, yes)}, "",
			"1 of 3 tenants have generation 2; tenant b could not get it: why b", tenantapi.ReasonStopped},
		"others": {[]*tenantapi.Tenant{dormant, deleted, other, system}, "", "0 of 0", tenantapi.ReasonApplied},
		"made anew": {[]*tenantapi.Tenant{remade, tenant("a", 2, yes)}, "z", "1 of 2",
			tenantapi.ReasonProgressing},
		"it was absent": {[]*tenantapi.Tenant{without}, "y", "0 of 1", tenantapi.ReasonProgressing},
	} {
		p := progressOf(template, c.tenants)
		var next []string
		for _, t := range p.next(template) {
			next = append(next, t.Name)
		}
		got := p.condition(template)
		if strings.Join(next, " ") != c.next || !strings.HasPrefix(got.Message, c.message) || got.Reason != c.reason ||
			(got.Status == yes) != (c.reason == tenantapi.ReasonApplied) {
			t.Errorf("%s: next %v, %+v", name, next, got)
		}
	}
	var many []*tenantapi.Tenant
	for i := range 9 {
		many = append(many, tenant(fmt.Sprint(i), 1, yes))
	}
	template.Spec.MaxFailed = 1
	p := progressOf(template, append(many[:3:3], tenant("x", 2, no)))
	if got := p.condition(template); len(p.next(template)) != 2 || got.Reason != tenantapi.ReasonProgressing ||
		!strings.Contains(got.Message, "why x") {
		t.Errorf("with one that may fail: %v, %+v", p.next(template), got)
	}
	template.Spec.AtATime = 0
	if p := progressOf(template, many); len(p.next(template)) != tenantapi.DefaultAtATime {
		t.Errorf("without a number: %d", len(p.next(template)))
	}
}
