package spaces_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/tests/nstest"
)

const rolesPath = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

// TestShortPathsWriteToTheSystem: what an administrator or a program of the space of the
// system changes by a list is not that of tenants.
func TestShortPathsWriteToTheSystem(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a := p.bareTenant(t, "a")
	t.Run("administrators", func(t *testing.T) { testShortPathsOfAdministrators(t, p, a) })
	t.Run("service accounts", func(t *testing.T) { testShortPathsOfAccounts(t, p, a) })
}

// labelled has the ClusterRoles of a label by their composite names.
func (p *plane) labelled(t *testing.T, label string) (names []string) {
	t.Helper()
	list, err := p.admin.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{LabelSelector: label})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list.Items {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

func testShortPathsOfAdministrators(t *testing.T, p *plane, a *space) {
	ctx := t.Context()
	const selected = rolesPath + "?labelSelector=team%3Dx"
	makeRoles := func() {
		t.Helper()
		for _, s := range []*space{p.as(t, "system", p.Admin), a} {
			if _, err := s.client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{"team": "x"}},
			}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
	}
	makeRoles()
	both, theirs := []string{"one", "one.a.tenant"}, []string{"one.a.tenant"}
	if got := p.labelled(t, "team=x"); !slices.Equal(got, both) {
		t.Errorf("an administrator sees %v", got)
	}
	for command, sees := range map[string]bool{"kubectl get": true, "kubectl delete": false, "kubectl label": false} {
		for _, form := range []string{"Accept: application/json", asTable} {
			code, body := do(t, p.Admin, http.MethodGet, selected, "", []string{"Kubectl-Command: " + command, form})
			if code != http.StatusOK || strings.Contains(body, "one.a.tenant") != sees ||
				!strings.Contains(body, `"one"`) {
				t.Errorf("%s, %s: %d %.300s", command, form, code, body)
			}
		}
	}
	if err := p.admin.RbacV1().ClusterRoles().DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "team=x"}); err != nil {
		t.Error(err)
	}
	if got := p.labelled(t, "team=x"); !slices.Equal(got, theirs) {
		t.Errorf("after the deletion of a collection there are %v", got)
	}
	const merge = `{"metadata":{"labels":{"by":"system"}}}`
	for _, c := range []struct{ method, path, body, native string }{
		{http.MethodDelete, rolesPath + "/one.a.tenant", "", rolesPath[:len(rolesPath)-len("clusterroles")] +
			"tenants/a/clusterroles/one"},
		{http.MethodPut, rolesPath + "/one.a.tenant", `{"metadata":{"name":"one.a.tenant"}}`, "clusterroles/one"},
		{http.MethodDelete, "/api/v1/namespaces/default.a", "", "/api/v1/tenants/a/namespaces/default"},
		{http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"more.a"}}`, "/tenants/a"},
		{http.MethodPost, rolesPath, `{"metadata":{"name":"two.a.tenant"}}`, "/tenants/a"},
	} {
		if code, body := do(t, p.Admin, c.method, c.path, c.body, nil); code != http.StatusForbidden ||
			!strings.Contains(body, c.native) {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, body)
		}
	}
	if _, err := p.admin.RbacV1().ClusterRoles().Patch(ctx, "one.a.tenant", types.MergePatchType, []byte(merge),
		metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("patch of a tenant's role: %v", err)
	}
	if got := p.labelled(t, "by=system"); len(got) > 0 {
		t.Errorf("the administrator has changed %v", got)
	}
	// A path says it.
	if code, body := do(t, p.Admin, http.MethodDelete, "/tenants/a"+rolesPath+"/one", "", nil); code != http.StatusOK {
		t.Errorf("in the space: %d %s", code, body)
	}
	makeRoles()
	if code, body := do(t, p.Admin, http.MethodDelete, "/tenants/all"+selected, "", nil); code != http.StatusOK {
		t.Errorf("in all spaces: %d %s", code, body)
	}
	if got := p.labelled(t, "team=x"); len(got) > 0 {
		t.Errorf("after the deletion in all spaces there are %v", got)
	}
	if code, body := do(t, a.config, http.MethodDelete, "/tenants/all"+selected, "",
		nil); code != http.StatusForbidden {
		t.Errorf("a tenant's user in all spaces: %d %s", code, body)
	}
}

func testShortPathsOfAccounts(t *testing.T, p *plane, a *space) {
	ctx := t.Context()
	system := p.as(t, "system", p.Admin)
	system.namespace(t, "operator", nil)
	if _, err := p.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operator"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "operator", Name: "default"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	operator := p.account(t, system, "operator", "default", nil)
	eventually(t, "the role of the operator", func(ctx context.Context) (bool, error) {
		_, err := operator.client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	for _, s := range []*space{system, a} {
		if _, err := s.client.CoreV1().ConfigMaps("default").Create(ctx, configMap("seen"),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	namespaces := func(s *space) (found []string) {
		t.Helper()
		list, err := s.client.CoreV1().ConfigMaps("").List(ctx,
			metav1.ListOptions{FieldSelector: "metadata.name=seen"})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			found = append(found, o.Namespace)
		}
		slices.Sort(found)
		return found
	}
	if got := namespaces(operator); !slices.Equal(got, []string{"default"}) {
		t.Errorf("a service account of the system sees %v", got)
	}
	all, err := operator.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil || slices.ContainsFunc(all.Items,
		func(n corev1.Namespace) bool { return strings.HasSuffix(n.Name, ".a") }) {
		t.Errorf("its namespaces: %+v, %v", all, err)
	}
	watch, err := operator.client.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for _, s := range []*space{a, system} {
		if _, err := s.client.CoreV1().ConfigMaps("default").Create(ctx, configMap("watched"),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for event := range watch.ResultChan() {
		o, ok := event.Object.(*corev1.ConfigMap)
		if !ok || o.Namespace == "default.a" {
			t.Errorf("its watch has %+v", event)
		}
		if ok && o.Name == "watched" && o.Namespace == "default" {
			break
		}
	}
	if _, err := operator.client.CoreV1().ConfigMaps("default.a").Get(ctx, "seen",
		metav1.GetOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "/tenants/a") {
		t.Errorf("an object of a tenant: %v", err)
	}
	if _, err := operator.client.CoreV1().ConfigMaps("default").Get(ctx, "seen", metav1.GetOptions{}); err != nil {
		t.Errorf("an object of the system: %v", err)
	}
	for path, want := range map[string]string{"/tenants/all/api/v1/configmaps": `"tenant":"a"`,
		"/tenants/a/api/v1/namespaces/default/configmaps/seen": `"tenant":"a"`} {
		if code, body := get(t, operator.config, path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.300s", path, code, body)
		}
	}
	// Who is to work in all spaces is told to.
	if _, err := p.admin.CoreV1().ServiceAccounts("operator").Patch(ctx, "default", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"a4s.io/spaces":"all"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the annotation to count", func(context.Context) (bool, error) {
		return slices.Equal(namespaces(operator), []string{"default", "default.a"}), nil
	})
}
