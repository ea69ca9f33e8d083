package roles

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
)

func role(name string, labels map[string]string, resources ...string) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	for _, resource := range resources {
		r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""},
			Resources: []string{resource}})
	}
	return r
}

func of(r *rbacv1.ClusterRole, selectors ...map[string]string) *rbacv1.ClusterRole {
	r.AggregationRule = &rbacv1.AggregationRule{}
	for _, s := range selectors {
		r.AggregationRule.ClusterRoleSelectors = append(r.AggregationRule.ClusterRoleSelectors,
			metav1.LabelSelector{MatchLabels: s})
	}
	return r
}

func TestRules(t *testing.T) {
	to := func(names ...string) map[string]string {
		out := map[string]string{space.Label: "t1"}
		for _, n := range names {
			out["to-"+n] = "true"
		}
		return out
	}
	without := func(m map[string]string) map[string]string { delete(m, space.Label); return m }
	view := of(role("view", without(to("edit")), "stored"), without(to("view")))
	edit := of(role("edit", nil, "stored"), without(to("edit")))
	own := of(role("own.t1.tenant", to("view"), "stored"), to("edit"), to("other"))
	all := []*rbacv1.ClusterRole{
		view, edit, own,
		role("system:view", without(to("view")), "pods"),
		role("system:edit", without(to("edit")), "services", "pods"),
		role("boats.t1.tenant", to("view"), "boats"),
		role("other.t1.tenant", to("other"), "others", "boats"),
		role("none.t1.tenant", to("none"), "nones"),
	}
	for _, c := range []struct {
		of   *rbacv1.ClusterRole
		want []string
	}{
		// It selects own, which selects edit, which selects it.
		{view, []string{"boats", "others", "pods", "services"}},
		{edit, []string{"boats", "others", "pods", "services"}},
		{own, []string{"boats", "others", "pods", "services"}},
		{role("system:view", nil, "pods"), []string{"pods"}},
		{of(role("x", nil)), nil},
	} {
		rules, err := Rules(c.of, all)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rules {
			got = append(got, r.Resources...)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s gives %v, want %v", c.of.Name, got, c.want)
		}
	}
	bad := of(role("bad", nil))
	unknown := []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Like"}}
	bad.AggregationRule.ClusterRoleSelectors = []metav1.LabelSelector{{MatchExpressions: unknown}}
	if _, err := Rules(bad, all); err == nil {
		t.Error("a selector that cannot be read gives no error")
	}
}

func TestSelectable(t *testing.T) {
	for _, c := range []struct {
		labels map[string]string
		want   bool
	}{{nil, false}, {map[string]string{space.Label: "t1"}, false}, {map[string]string{"a": ""}, true},
		{map[string]string{space.Label: "t1", "a": ""}, true}} {
		if got := Selectable(role("x", c.labels)); got != c.want {
			t.Errorf("%v: %t", c.labels, got)
		}
	}
	for name, want := range map[string]bool{"view": true, "system:x": true, "x": false, "view.t1.tenant": false,
		"system:x.t1.tenant": false} {
		if got := Shared(name); got != want {
			t.Errorf("%s is shared: %t", name, got)
		}
	}
}
