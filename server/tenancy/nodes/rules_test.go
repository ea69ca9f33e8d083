package nodes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

type selector = map[string]string

// known are tenants by their names.
type known map[string]*tenantapi.Tenant

func (k known) Scheduling(_ context.Context, tenant string) (*tenantapi.TenantScheduling, string, error) {
	t := k[tenant]
	if t == nil {
		return nil, "", errors.New("it cannot be read")
	}
	if t.Spec.Template != "" && t.Spec.Scheduling == nil {
		return &tenantapi.TenantScheduling{NodeSelector: goldPool(), Exclusive: true}, t.Spec.Template, nil
	}
	return t.Spec.Scheduling, "", nil
}

// goldPool are the nodes that templates give to tenants.
func goldPool() selector { return selector{"pool": "gold"} }

func tenant(name string, exclusive bool, of selector) *tenantapi.Tenant {
	t := &tenantapi.Tenant{}
	t.Name = name
	if exclusive || of != nil {
		t.Spec.Scheduling = &tenantapi.TenantScheduling{NodeSelector: of, Exclusive: exclusive}
	}
	return t
}

const (
	lacks = "did not have the labels that nodes of this tenant have"
	kept  = "set aside for another tenant"
)

// TestRefusal: which tenant may use a node, by what all of them have.
func TestRefusal(t *testing.T) {
	type tenants = []*tenantapi.Tenant
	onlyA := tenants{tenant("a", false, selector{"pool": "a"})}
	alone := tenants{tenant("a", true, selector{"pool": "a"}), tenant("b", false, nil)}
	ssd := tenants{alone[0], tenant("b", true, selector{"disk": "ssd"})}
	both := selector{"pool": "a", "disk": "ssd"}
	for name, c := range map[string]struct {
		tenants tenants
		of      string
		node    selector
		want    string // "" if it may
	}{
		"nobody has any":    {tenants{tenant("a", false, nil)}, "a", selector{"pool": "a"}, ""},
		"its own":           {onlyA, "a", selector{"pool": "a", "x": "y"}, ""},
		"another":           {onlyA, "a", selector{"pool": "b"}, lacks + ": pool=a"},
		"without the label": {tenants{tenant("a", false, selector{"pool": ""})}, "a", nil, lacks},
		"an empty value": {tenants{tenant("a", false, selector{"pool": ""})}, "a", selector{"pool": ""},
			""},
		"one of two": {tenants{tenant("a", false, both)}, "a", selector{"pool": "a"},
			lacks + ": disk=ssd,pool=a"},
		"not for itself alone": {append(tenants{tenant("b", false, nil)}, onlyA...), "b", selector{"pool": "a"}, ""},
		"another's alone":      {alone, "b", selector{"pool": "a"}, kept},
		"beside another's":     {alone, "b", selector{"pool": "b"}, ""},
		"half of another's": {tenants{tenant("a", true, both), tenant("b", false, nil)}, "b",
			selector{"disk": "ssd"}, ""},
		"its own alone":      {alone, "a", selector{"pool": "a"}, ""},
		"of both, the one":   {ssd, "a", both, kept},
		"of both, the other": {ssd, "b", both, kept},
		"of both, alike": {tenants{alone[0], tenant("b", true, selector{"pool": "a"})}, "b",
			selector{"pool": "a"}, kept},
		"alone without labels": {tenants{tenant("a", true, nil), tenant("b", false, nil)}, "b", nil, ""},
		"the system":           {alone, space.System, selector{"pool": "a"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			all := known{}
			rules := New(all)
			for _, one := range c.tenants {
				all[one.Name] = one
				rules.Changed(nil, one)
			}
			rule, err := rules.Of(t.Context(), c.of)
			if err != nil {
				t.Fatal(err)
			}
			got := rule.Refusal(c.node)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got != "" && rule.Anywhere() {
				t.Error("the rule says that it runs anywhere")
			}
		})
	}
}

// TestChanges: what others keep counts as soon as it is heard of, is forgotten when it ends,
// and those who wait are told of each change that can matter.
func TestChanges(t *testing.T) {
	all := known{"b": tenant("b", false, nil)}
	rules := New(all)
	ctx, cancel := context.WithCancel(t.Context())
	told := 0
	rules.OnChange(ctx, func() { told++ })
	node := selector{"pool": "a"}
	step := func(what string, want string, calls int, do func()) {
		t.Helper()
		told = 0
		do()
		rule, err := rules.Of(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		if got := rule.Refusal(node); (got == "") != (want == "") || !strings.Contains(got, want) || told != calls ||
			rule.Anywhere() != (len(rules.by) == 0) {
			t.Errorf("%s: %q, want %q; told %d times, want %d", what, got, want, told, calls)
		}
	}
	first, moved := tenant("a", true, node), tenant("a", true, selector{"pool": "c"})
	shared := tenant("a", false, node)
	tolerant := tenant("a", true, node)
	tolerant.Spec.Cordoned = true
	step("the first request of one with labels", "", 0, func() {
		rules.Changed(nil, tenant("c", false, selector{"pool": "c"}))
	})
	step("a new one", kept, 0, func() { rules.Changed(nil, first) })
	step("something else", kept, 0, func() { rules.Changed(first, tolerant) })
	step("other labels", "", 1, func() { rules.Changed(first, moved) })
	step("back", kept, 1, func() { rules.Changed(moved, first) })
	step("shared", "", 1, func() { rules.Changed(first, shared) })
	step("gone without any", "", 0, func() { rules.Gone("a") })
	step("again", kept, 1, func() { rules.Changed(shared, first) })
	step("gone", "", 1, func() { rules.Gone("a") })
	if len(rules.kept) > 0 {
		t.Errorf("it remembers %v", rules.kept)
	}
	if _, err := rules.Of(t.Context(), "unknown"); err == nil {
		t.Error("a tenant that cannot be read runs anywhere")
	}
	cancel()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			rules.mu.RLock()
			defer rules.mu.RUnlock()
			return len(rules.changes) == 0, nil
		})
	if err != nil {
		t.Errorf("it tells who is gone: %v", err)
	}
}

// TestSharedLabels: tenants that have a label in common are found by another one, so that a
// node is compared with few.
func TestSharedLabels(t *testing.T) {
	all := known{"guest": tenant("guest", false, nil)}
	rules := New(all)
	for _, name := range []string{"a", "b", "c", "d"} {
		all[name] = tenant(name, true, selector{"dedicated": "true", "pool": name})
		rules.Changed(nil, all[name])
	}
	for at, tenants := range rules.kept {
		if len(tenants) > 1 {
			t.Errorf("%d tenants are found by %v", len(tenants), at)
		}
	}
	node := selector{"dedicated": "true", "pool": "c"}
	for of, want := range map[string]string{"guest": kept, "a": lacks, "c": ""} {
		got, err := rules.Refusal(t.Context(), of, node)
		if err != nil || (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, %v, want %q", of, got, err, want)
		}
	}
}

// TestRefusalsAreMadeOnce: a pod is compared with thousands of nodes.
func TestRefusalsAreMadeOnce(t *testing.T) {
	rules := New(known{"a": tenant("a", false, selector{"pool": "a", "disk": "ssd"})})
	rule, err := rules.Of(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	node := selector{"pool": "b"}
	if n := testing.AllocsPerRun(10, func() { rule.Refusal(node) }); n > 0 {
		t.Errorf("%v allocations a node", n)
	}
}

// TestConflict: of several labels that no node has, the first is named.
func TestConflict(t *testing.T) {
	rules := New(known{"a": tenant("a", false, selector{"pool": "a", "disk": "ssd"}), "b": tenant("b", false, nil)})
	for _, c := range []struct {
		of    string
		asked selector
		want  string
	}{
		{"a", nil, ""},
		{"a", selector{"pool": "a", "zone": "z"}, ""},
		{"a", selector{"pool": "b"}, "asks for a node with pool=b, and the nodes of this tenant have pool=a"},
		{"a", selector{"pool": "b", "disk": "hdd"},
			"asks for a node with disk=hdd, and the nodes of this tenant have disk=ssd"},
		{"a", selector{"pool": ""}, "asks for a node with pool=, and the nodes of this tenant have pool=a"},
		{"b", selector{"pool": "b"}, ""},
		{space.System, selector{"pool": "b"}, ""},
	} {
		if got, err := rules.Conflict(t.Context(), c.of, c.asked); err != nil || got != c.want {
			t.Errorf("%s asks for %v: %q, %v, want %q", c.of, c.asked, got, err, c.want)
		}
	}
	if _, err := rules.Conflict(t.Context(), "unknown", nil); err == nil {
		t.Error("a tenant that cannot be read has no conflict")
	}
}

// TestNodesOfATemplate: nodes that a template keeps are for all its tenants, as long as they have them from it.
func TestNodesOfATemplate(t *testing.T) {
	from := func(name, template string, own *tenantapi.TenantScheduling) *tenantapi.Tenant {
		t := tenant(name, false, nil)
		t.Spec.Template, t.Spec.Scheduling = template, own
		return t
	}
	all := known{}
	r := New(all)
	told := 0
	r.OnChange(t.Context(), func() { told++ })
	says := func(s *tenantapi.TenantScheduling) *tenantapi.TenantTemplate {
		return &tenantapi.TenantTemplate{Spec: tenantapi.TenantTemplateSpec{Scheduling: s}}
	}
	r.TemplateChanged("gold", says(&tenantapi.TenantScheduling{NodeSelector: goldPool(), Exclusive: true}))
	for _, is := range []*tenantapi.Tenant{from("a", "gold", nil), from("b", "gold", nil), from("c", "", nil),
		from("d", "gold", &tenantapi.TenantScheduling{}), from("e", "other", nil)} {
		all[is.Name] = is
		r.Changed(nil, is)
	}
	refuses := func(name string) string {
		t.Helper()
		why, err := r.Refusal(t.Context(), name, goldPool())
		if err != nil {
			t.Fatal(err)
		}
		return why
	}
	for name, want := range map[string]string{"a": "", "b": "", "c": kept, "d": kept, "e": kept} {
		if got := refuses(name); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if told != 1 {
		t.Errorf("pods that wait are tried again %d times", told)
	}
	r.TemplateChanged("gold", says(&tenantapi.TenantScheduling{NodeSelector: goldPool(), Exclusive: true}))
	r.TemplateChanged("silver", says(nil))
	if told != 1 {
		t.Errorf("for nothing %d times", told-1)
	}
	moved := from("c", "gold", nil)
	r.Changed(all["c"], moved)
	all["c"] = moved
	if told != 2 || refuses("c") != "" {
		t.Errorf("%d, c is refused: %q", told, refuses("c"))
	}
	r.TemplateChanged("gold", nil)
	if told != 3 || refuses("d") != "" || len(r.by) > 0 || len(r.kept) > 0 || len(r.templates) > 0 {
		t.Errorf("%d, d is refused when the template is gone: %q", told, refuses("d"))
	}
}

// TestKeptFrom: what a node is told stays with those it is for.
func TestKeptFrom(t *testing.T) {
	a, b := tenant("a", true, selector{"pool": "a"}), tenant("b", false, selector{"pool": "b"})
	gold := tenant("g", false, nil)
	gold.Spec.Template = "gold"
	k := known{"a": a, "b": b, "g": gold}
	r := New(k)
	before := r.Version()
	r.Changed(nil, a)
	r.Changed(nil, b)
	r.Changed(nil, gold)
	r.TemplateChanged("gold", &tenantapi.TenantTemplate{Spec: tenantapi.TenantTemplateSpec{
		Scheduling: &tenantapi.TenantScheduling{NodeSelector: goldPool(), Exclusive: true}}})
	if r.Version() == before {
		t.Error("the version is as before")
	}
	for _, c := range []struct {
		tenant string
		node   selector
		want   bool
	}{
		{"a", selector{"pool": "a"}, false}, {"b", selector{"pool": "a"}, true},
		{space.System, selector{"pool": "a"}, true}, {"unknown", selector{"pool": "a"}, true},
		// Where its pods do not run, requests for it may come in.
		{"b", selector{"pool": "c"}, false}, {"a", selector{}, false}, {space.System, nil, false},
		{"unknown", selector{"pool": "c"}, false},
		{"g", goldPool(), false}, {"a", goldPool(), true}, {space.System, goldPool(), true},
	} {
		if got := r.KeptFrom(t.Context(), c.tenant, c.node); got != c.want {
			t.Errorf("a node with %v is kept from %s: %v", c.node, c.tenant, got)
		}
	}
	before = r.Version()
	r.Gone("a")
	if r.KeptFrom(t.Context(), "b", selector{"pool": "a"}) || r.Version() == before {
		t.Error("nodes are kept for a tenant that is gone")
	}
}
