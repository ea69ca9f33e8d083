package storage_test

import (
	"context"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/storage"
	"github.com/a4s-io/a4s/tests/plainetcd"
)

// role gives something to who has role to.
func role(name, resource, to string) *rbacv1.ClusterRole {
	out := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}}}}
	if to != "" {
		out.Labels["to-"+to] = "true"
	}
	return out
}

func gives(r *rbacv1.ClusterRole) (out []string) {
	for _, rule := range r.Rules {
		out = append(out, rule.Resources...)
	}
	slices.Sort(out)
	return out
}

// TestAggregatedRolesAreShownAsInTheSpace reads view, which has collected the role of an
// operator in the system space, in that space and in those of tenants.
func TestAggregatedRolesAreShownAsInTheSpace(t *testing.T) {
	view := role("view", "pipelines", "")
	view.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{"to-view": "true"}}}}
	shared := func() ([]*rbacv1.ClusterRole, error) {
		return []*rbacv1.ClusterRole{view, role("system:to-view", "pods", "view")}, nil
	}
	s := open(t, plainetcd.Run(t), clusterRoles(), storage.Decorate(getter{genericregistry.StorageWithCacher()},
		storage.Options{SharedRoles: shared}))
	put := func(r *rbacv1.ClusterRole) {
		t.Helper()
		if err := s.Create(t.Context(), s.key("", r.Name), r, &rbacv1.ClusterRole{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*rbacv1.ClusterRole{view, role("system:to-view", "pods", "view"), role("operator",
		"pipelines", "view"),
		role("boats.t1.tenant", "boats", "view"), role("cars.t1.tenant", "cars", "")} {
		put(r.DeepCopy())
	}
	read := func(ctx context.Context) []string {
		t.Helper()
		got, list := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleList{}
		if err := s.Get(ctx, s.key("", "view"), apistorage.GetOptions{}, got); err != nil {
			t.Fatal(err)
		}
		if err := s.GetList(ctx, s.prefix, s.options(nil), list); err != nil {
			t.Fatal(err)
		}
		for _, r := range list.Items {
			if r.Name == "view" && !slices.Equal(gives(&r), gives(got)) {
				t.Errorf("view gives %v, in a list %v", gives(got), gives(&r))
			}
		}
		return gives(got)
	}
	in := func(tenant string) context.Context { return space.WithTenant(t.Context(), tenant) }
	for _, c := range []struct {
		ctx  context.Context
		want []string
	}{{t.Context(), []string{"pipelines"}}, {in(space.System), []string{"pipelines"}},
		{in("t1"), []string{"boats", "pods"}}, {in("t2"), []string{"pods"}}} {
		if got := read(c.ctx); !slices.Equal(got, c.want) {
			t.Errorf("view gives %v, want %v", got, c.want)
		}
	}

	// Who watches all roles of a space learns what view gives when its roles change.
	_, list := s.list(t, in("t1"), s.prefix, nil)
	at := func(o *apistorage.ListOptions) { o.ResourceVersion = list.GetResourceVersion() }
	w, err := s.Watch(in("t1"), s.prefix, s.options(at))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	one, err := s.Watch(in("t1"), s.prefix, s.options(func(o *apistorage.ListOptions) {
		at(o)
		o.Predicate.Label = labels.SelectorFromSet(labels.Set{"to-view": "true"})
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Stop()
	expect := func(w watch.Interface, kind watch.EventType, name string, want ...string) {
		t.Helper()
		select {
		case e := <-w.ResultChan():
			obj := e.Object
			if shared, ok := obj.(runtime.CacheableObject); ok {
				obj = shared.GetObject()
			}
			if r, ok := obj.(*rbacv1.ClusterRole); !ok || e.Type != kind || r.Name != name ||
				!slices.Equal(gives(r), want) {
				t.Errorf("%s %+v, want %s %s, which gives %v", e.Type, e.Object, kind, name, want)
			}
		case <-t.Context().Done():
			t.Fatalf("no event of %s", name)
		}
	}
	put(role("trains.t2.tenant", "trains", "view"))
	put(role("ports.t1.tenant", "ports", "view"))
	expect(w, watch.Added, "ports.t1.tenant", "ports")
	expect(w, watch.Modified, "view", "boats", "pods", "ports")
	expect(one, watch.Added, "ports.t1.tenant", "ports")
	put(role("none.t1.tenant", "nones", ""))
	expect(w, watch.Added, "none.t1.tenant", "nones")
	if err := s.Delete(t.Context(), s.key("", "boats.t1.tenant"), &rbacv1.ClusterRole{}, nil,
		apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(w, watch.Deleted, "boats.t1.tenant", "boats")
	expect(w, watch.Modified, "view", "pods", "ports")
	expect(one, watch.Deleted, "boats.t1.tenant", "boats")
}
