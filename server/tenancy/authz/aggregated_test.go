package authz

import (
	"context"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/a4s-io/a4s/internal/space"
)

// TestAggregatedRolesOfASpace: what a role adds to view, edit and admin it adds in
// its own space.
func TestAggregatedRolesOfASpace(t *testing.T) {
	adds := func(name, to, resource string) *rbacv1.ClusterRole {
		r := clusterRole(name, rule("get", "example.com", resource))
		r.Labels = map[string]string{"rbac.authorization.k8s.io/aggregate-to-" + to: "true"}
		if tenant, _ := space.SplitClusterName(name); !space.IsSystem(tenant) {
			r.Labels[space.Label] = tenant
		}
		return r
	}
	var objs []runtime.Object
	for _, r := range bootstrappolicy.ClusterRoles() {
		if r.Name == "view" { // what upstream's controller collected in the system space
			r.Rules = append(r.Rules, rule("get", "example.com", "pipelines"))
		}
		objs = append(objs, &r)
	}
	client := fake.NewClientset(append(objs, adds("operator", "view", "pipelines"),
		adds("boats.t1.tenant", "view", "boats"), adds("ports.t1.tenant", "edit", "ports"),
		adds("trains.t2.tenant", "view", "trains"))...)
	f := informers.NewSharedInformerFactory(client, 0)
	l, err := NewListers(f)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.Start(ctx.Done())
	t.Cleanup(func() { cancel(); f.Shutdown() })
	f.WaitForCacheSync(ctx.Done())
	gives := func(tenant, name string) (got []string) {
		t.Helper()
		in := t.Context()
		if tenant != "" {
			in = space.WithTenant(in, tenant)
		}
		role, err := l.GetClusterRole(in, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			switch {
			case slices.Contains(r.APIGroups, "example.com"):
				got = append(got, r.Resources...)
			case slices.Contains(r.Resources, "pods") && slices.Contains(r.Verbs, "get"):
				got = append(got, "pods")
			}
		}
		slices.Sort(got)
		return slices.Compact(got)
	}
	check := func(tenant, name string, want ...string) {
		t.Helper()
		if got := gives(tenant, name); !slices.Equal(got, want) {
			t.Errorf("in %q %s gives %v, want %v", tenant, name, got, want)
		}
	}
	for range 2 { // the second time it is kept
		check("", "view", "pipelines")
		check("t1", "view", "boats", "pods")
		check("t1", "edit", "boats", "pods", "ports")
		check("t1", "admin", "boats", "pods", "ports")
		check("t2", "view", "pods", "trains")
		check("t2", "edit", "pods", "trains")
		check("t3", "view", "pods")
		check("t4", "view", "pods")
	}
	until := func(tenant, name string, want ...string) {
		t.Helper()
		for !slices.Equal(gives(tenant, name), want) {
			if t.Context().Err() != nil {
				t.Fatalf("in %q %s gives %v, want %v", tenant, name, gives(tenant, name), want)
			}
		}
	}
	if err := client.RbacV1().ClusterRoles().Delete(t.Context(), "boats.t1.tenant",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("t1", "view", "pods")
	until("t1", "admin", "pods", "ports")
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), adds("cars.t3.tenant", "view", "cars"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until("t3", "view", "cars", "pods")
	check("t4", "view", "pods")
	if err := client.RbacV1().ClusterRoles().Delete(t.Context(), "system:aggregate-to-view",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("t4", "view")
	until("t3", "view", "cars")
	l.aggregated.mu.RLock()
	defer l.aggregated.mu.RUnlock()
	if l.aggregated.computed["t4"] != nil {
		t.Error("something is kept by the name of a tenant that has no role")
	}
}
