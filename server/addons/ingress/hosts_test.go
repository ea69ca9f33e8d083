package ingress

import (
	"slices"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestPolicy: t1 has the list, t2 asks where other is set, with a list of its own.
func TestPolicy(t *testing.T) {
	const yes = ""
	for name, c := range map[string]struct {
		lists  map[string][]string
		tenant string
		host   string
		why    string // a part of the refusal
	}{
		"a name of the list":                       {listOf("a.x"), "t1", "a.x", yes},
		"a name that is not in the list":           {listOf("a.x"), "t1", "b.x", "may have hosts of a.x"},
		"a name below one of the list":             {listOf("a.x"), "t1", "b.a.x", "may have hosts of a.x"},
		"a wildcard over a name of the list":       {listOf("a.x"), "t1", "*.x", "may have hosts of a.x"},
		"a name below a wildcard":                  {listOf("*.x"), "t1", "a.x", yes},
		"a name far below a wildcard":              {listOf("*.x"), "t1", "c.b.a.x", yes},
		"the wildcard itself":                      {listOf("*.x"), "t1", "*.x", yes},
		"a wildcard below the wildcard":            {listOf("*.x"), "t1", "*.a.x", yes},
		"a wildcard above the wildcard":            {listOf("*.a.x"), "t1", "*.x", "may have hosts of *.a.x"},
		"the name that the wildcard is below":      {listOf("*.x.y"), "t1", "x.y", "may have hosts of *.x.y"},
		"a name that ends like the wildcard":       {listOf("*.x.y"), "t1", "ax.y", "may have hosts of *.x.y"},
		"every host with a list":                   {listOf("*.x"), "t1", anyHost, "may have hosts of *.x"},
		"everything, a name":                       {listOf(tenantapi.Everything), "t1", "a.x", yes},
		"everything, a wildcard":                   {listOf(tenantapi.Everything), "t1", "*.x", yes},
		"everything, every host":                   {listOf(tenantapi.Everything), "t1", anyHost, yes},
		"everything, a name of another's list":     {listOf(tenantapi.Everything, "t2", "a.x"), "t1", "a.x", yes},
		"everything of another keeps nothing":      {listOf("a.x", "t2", tenantapi.Everything), "t3", "b.x", yes},
		"no list, a free name":                     {nil, "t1", "a.x", yes},
		"no list, a name without a dot":            {nil, "t1", "x", yes},
		"no list, a wildcard":                      {nil, "t1", "*.x", "a wildcard would take names"},
		"no list, every host":                      {nil, "t1", anyHost, "names its host"},
		"no list, a name of another":               {listOf("a.x"), "t2", "a.x", "kept for another space"},
		"no list, a name below another's wildcard": {listOf("*.x"), "t2", "b.a.x", "kept for another space"},
		"no list, the name above that wildcard":    {listOf("*.x.y"), "t2", "x.y", yes},
		"both have it in their lists":              {listOf("a.x", "t2", "*.x"), "t2", "a.x", yes},
		"the system, a name of another":            {listOf("a.x"), space.System, "a.x", yes},
		"the system, a wildcard":                   {nil, space.System, "*.x", yes},
		"the system, every host":                   {nil, space.System, anyHost, yes},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy()
			for tenant, entries := range c.lists {
				p.set(tenant, entries)
			}
			why := p.refuse(c.tenant, c.host)
			if (why == "") != (c.why == yes) || !strings.Contains(why, c.why) {
				t.Errorf("refused by %q, want %q", why, c.why)
			}
			for _, other := range []string{"t1", "t2", "t3"} {
				if c.tenant != other && strings.Contains(why, other) {
					t.Errorf("%q names another tenant", why)
				}
			}
		})
	}
}

// listOf is the list of t1 with one entry, and that of another.
func listOf(entry string, other ...string) map[string][]string {
	out := map[string][]string{"t1": {entry}}
	if len(other) == 2 {
		out[other[0]] = other[1:]
	}
	return out
}

func TestPolicyChanges(t *testing.T) {
	p := newPolicy()
	may := func(tenant, host string) bool { return p.refuse(tenant, host) == "" }
	for _, c := range []struct {
		tenant  string
		entries []string
		news    bool
		t1, t2  bool // who may have a.x
	}{
		{"t1", nil, false, true, true},
		{"t1", []string{"*.x", "a.x", "a.x"}, true, true, false},
		{"t1", []string{"*.x", "a.x", "a.x"}, false, true, false},
		{"t2", []string{"a.x"}, true, true, true},
		{"t1", []string{"b.x"}, true, false, true},
		{"t1", nil, true, false, true},
		{"t2", nil, true, true, true},
	} {
		if news := p.set(c.tenant, c.entries); news != c.news {
			t.Errorf("%s gets %q: news is %v", c.tenant, c.entries, news)
		}
		if may("t1", "a.x") != c.t1 || may("t2", "a.x") != c.t2 {
			t.Errorf("after %s got %q t1 may have it: %v, t2: %v", c.tenant, c.entries, may("t1", "a.x"),
				may("t2", "a.x"))
		}
	}
	if len(p.of) != 0 || len(p.reserved) != 0 {
		t.Errorf("left are %v, %v", p.of, p.reserved)
	}
}

func TestAPolicyKeepsItsOwnCopy(t *testing.T) {
	p, entries := newPolicy(), []string{"a.x"}
	p.set("t1", entries)
	entries[0] = "b.x"
	if p.refuse("t1", "a.x") != "" || !p.set("t1", entries) || p.refuse("t1", "b.x") != "" {
		t.Error("a list that its owner changed later is not news")
	}
}

func TestALongListIsNotAllNamed(t *testing.T) {
	p := newPolicy()
	entries := slices.Repeat([]string{"name.x"}, mostNamed+1)
	entries[mostNamed] = "last.x"
	p.set("t1", entries)
	if why := p.refuse("t1", "b.x"); strings.Count(why, ".x") != mostNamed || strings.Contains(why, "last.x") {
		t.Errorf("refused by %q", why)
	}
}

func TestHostsOfAnIngress(t *testing.T) {
	for name, c := range map[string]struct {
		change change
		want   []string
	}{
		"rules, each once":              {all(rule("a.x"), rule("b.x"), rule("a.x")), []string{"a.x", "b.x"}},
		"a rule without a host":         {rule(anyHost), []string{anyHost}},
		"a default backend alone":       {otherwise("web:80"), []string{anyHost}},
		"a default backend and a rule":  {all(rule("a.x"), otherwise("web:80")), []string{"a.x"}},
		"neither rules nor one of them": {all(), nil},
	} {
		if got := hostsOf(ing("default.t1/a", 1, c.change)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
