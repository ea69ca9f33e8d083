package spaces_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// testNamespaceAgain: who had rights in a namespace has none, by an access of that time, in another one of its name.
func (d *ownAccess) testNamespaceAgain(t *testing.T) {
	d.newNamespace(t, "apps")
	spec := ownSpec("", "edit", "lead")
	spec.ServiceAccount = &tenantapi.AccessAccount{Namespace: "apps", Name: "deployer"}
	spec.Namespace = "apps"
	d.given(t, "lead", spec, []step{
		{"cannot create resource \"tenantaccesses\"", "", []rbacv1.PolicyRule{
			can("get,create,update,patch", "", "tenantaccesses")}},
		{"the right to create serviceaccounts/token of deployer in the namespace apps", "apps",
			[]rbacv1.PolicyRule{can("create", "", "serviceaccounts/token"),
				can("create", rbacv1.GroupName, "rolebindings"),
				can("bind", rbacv1.GroupName, "clusterroles", "edit")}},
		{"the right to create secrets in the namespace default", "default",
			[]rbacv1.PolicyRule{can("create", "", "secrets")}},
	})
	d.await(t, "lead", tenantapi.ReasonIssued)

	namespaces := d.a.client.CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), "apps", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to be gone", func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, "apps", metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	d.newNamespace(t, "apps") // of another team
	who := d.user(t, "lead", []string{"tenant:a"}, nil)
	eventually(t, "the old rights to be gone", func(context.Context) (bool, error) {
		code, answer := do(t, who, http.MethodPatch, ownAccesses+"/lead", `{"spec":{"expirationSeconds":7200}}`,
			[]string{"Content-Type: " + mergePatch})
		return code == http.StatusForbidden && strings.Contains(answer, "serviceaccounts/token of deployer"), nil
	})
	// Anything that happens to it has it looked at.
	if code, answer := do(t, who, http.MethodPatch, ownAccesses+"/lead", `{"metadata":{"labels":{"look":"again"}}}`,
		[]string{"Content-Type: " + mergePatch}); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	d.await(t, "lead", tenantapi.ReasonNamespace)
	config, _ := d.by(t, "lead")
	eventually(t, "the old token to end", func(context.Context) (bool, error) {
		code, _ := get(t, config, "/api/v1/namespaces/apps/configmaps")
		return code == http.StatusUnauthorized, nil
	})
	bindings, err := d.a.client.RbacV1().RoleBindings("apps").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(bindings.Items) > 0 {
		t.Errorf("bindings in the new namespace: %+v, %v", bindings.Items, err)
	}

	// Who has the rights in the new one changes it.
	if _, err := d.accesses.Patch(t.Context(), "lead", types.MergePatchType,
		[]byte(`{"spec":{"expirationSeconds":7200}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	d.await(t, "lead", tenantapi.ReasonIssued)
	d.remove(t, "lead")
}

// newNamespace makes a namespace of tenant a with a service account.
func (d *ownAccess) newNamespace(t *testing.T, name string) {
	t.Helper()
	if _, err := d.a.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.a.client.CoreV1().ServiceAccounts(name).Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "deployer"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
