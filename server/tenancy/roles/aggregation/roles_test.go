package aggregation

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	listers "k8s.io/client-go/listers/rbac/v1"

	"github.com/a4s-io/a4s/internal/space"
)

// filled returns the roles of some tenants, each with four, of which one has a rule, and the
// lister of upstream that has the same.
func filled(t testing.TB, tenants int) (*roles, listers.ClusterRoleLister) {
	t.Helper()
	from := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Rbac().V1().ClusterRoles()
	r, err := newRoles(from)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tenants {
		tenant := fmt.Sprintf("t-%d", i)
		for n := range 4 {
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
				Name:   space.ClusterName(tenant, fmt.Sprintf("role-%d", n)),
				Labels: map[string]string{space.Label: tenant, "part": fmt.Sprint(n)},
			}}
			if n == 0 {
				role.AggregationRule = &rbacv1.AggregationRule{}
			}
			if err := from.Informer().GetStore().Add(role); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r, from.Lister()
}

func names(t *testing.T, of listers.ClusterRoleLister, selector labels.Selector) []string {
	t.Helper()
	found, err := of.List(selector)
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	for _, role := range found {
		set[role.Name] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func TestEverythingIsTheRolesWithARule(t *testing.T) {
	r, _ := filled(t, 3)
	want := []string{space.ClusterName("t-0", "role-0"), space.ClusterName("t-1", "role-0"),
		space.ClusterName("t-2", "role-0")}
	if got := names(t, r.Lister(), labels.Everything()); !slices.Equal(got, want) {
		t.Errorf("everything is %v, want the roles with a rule, %v", got, want)
	}
}

func TestSelectorsFindWhatUpstreamsListerFinds(t *testing.T) {
	r, upstream := filled(t, 3)
	for _, text := range []string{
		space.Label + "=t-1", space.Label + "=t-1,part in (1,2)", space.Label + "=t-9", space.Label + "=t-1,part!=2",
	} {
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		want := names(t, upstream, selector)
		if got := names(t, r.Lister(), selector); !slices.Equal(got, want) {
			t.Errorf("%s finds %v, want %v", text, got, want)
		}
	}
}

// A selector that is not confined to a tenant is no rule of a tenant's.
func TestSelectorsOfNoTenantFindNothing(t *testing.T) {
	r, _ := filled(t, 3)
	for _, text := range []string{space.Label + " in (t-1,t-2)", "part=3", space.Label, space.Label + "=system"} {
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(t, r.Lister(), selector); len(got) > 0 {
			t.Errorf("%s finds %v", text, got)
		}
	}
}

// TestSharedRolesAreThoseOfTheTenant has a tenant whose role adds to view, and an
// aggregated role of it that selects what view does.
func TestSharedRolesAreThoseOfTheTenant(t *testing.T) {
	from := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Rbac().V1().ClusterRoles()
	r, err := newRoles(from)
	if err != nil {
		t.Fatal(err)
	}
	role := func(name, tenant, resource string, labels ...string) *rbacv1.ClusterRole {
		out := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""},
				Resources: []string{resource}}}}
		if tenant != "" {
			out.Name, out.Labels[space.Label] = space.ClusterName(tenant, name), tenant
		}
		for _, l := range labels {
			out.Labels[l] = "true"
		}
		return out
	}
	view := role("view", "", "everybodys", "to-edit")
	view.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{"to-view": "true"}}}}
	for _, o := range []*rbacv1.ClusterRole{
		view, role("system:to-view", "", "pods", "to-view"), role("operator", "", "pipelines", "to-view", "to-edit"),
		role("boats", "t1", "boats", "to-view"), role("trains", "t2", "trains", "to-view"),
	} {
		if err := from.Informer().GetStore().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	for tenant, want := range map[string][]string{"t1": {"boats", "pods"}, "t2": {"pods", "trains"}, "t3": {"pods"}} {
		selector := labels.SelectorFromSet(labels.Set{space.Label: tenant, "to-edit": "true"})
		found, err := r.Lister().List(selector)
		if err != nil || len(found) != 1 || found[0].Name != "view" {
			t.Fatalf("%s: %v, %v", tenant, found, err)
		}
		var got []string
		for _, rule := range found[0].Rules {
			got = append(got, rule.Resources...)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("in %s view gives %v, want %v", tenant, got, want)
		}
	}
}

// BenchmarkLists lists what upstream's controller lists when a role of a tenant is made: all
// that have a rule, and those of a tenant.
func BenchmarkLists(b *testing.B) {
	r, upstream := filled(b, 10000)
	tenant := labels.SelectorFromSet(labels.Set{space.Label: "t-7"})
	for name, of := range map[string]listers.ClusterRoleLister{"all": upstream, "indexed": r.Lister()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := of.List(labels.Everything()); err != nil {
					b.Fatal(err)
				}
				if _, err := of.List(tenant); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
