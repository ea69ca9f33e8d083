package spaces_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func testIdentity(t *testing.T, p *plane, a, b *space) {
	ctx := t.Context()
	me, err := a.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil || me.Status.UserInfo.Username != "admin" || len(me.Status.UserInfo.Extra["a4s.io/tenant"]) > 0 {
		t.Errorf("whoami: %+v, %v", me.Status.UserInfo, err)
	}
	token, err := a.client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	asAccount := rest.AnonymousClientConfig(a.config)
	asAccount.BearerToken = token.Status.Token
	account := p.as(t, "a", asAccount)
	me, err = account.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil || me.Status.UserInfo.Username != "system:serviceaccount:default:default" ||
		!slices.Contains(me.Status.UserInfo.Groups, "system:serviceaccounts:default") {
		t.Errorf("service account: %+v, %v", me.Status.UserInfo, err)
	}
	review := func(s *space, token string) bool {
		r, err := s.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status.Authenticated
	}
	if !review(a, token.Status.Token) || review(b, token.Status.Token) {
		t.Error("a token is known in the space of its account and nowhere else")
	}
	old := p.as(t, "a", p.user(t, "tenant:a", []string{"admins"}, nil))
	if _, err := old.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{}); err != nil {
		t.Errorf("old form of certificate: %v", err)
	}
	// A group of masters is one of the tenant.
	masters := p.as(t, "a", p.user(t, "root", []string{"tenant:a"}, []string{"system:masters"}))
	if code, _ := get(t, masters.config, "/api/v1/tenants/b/pods"); code != http.StatusForbidden {
		t.Errorf("masters of a in b: %d", code)
	}
	if code, _ := do(t, masters.config, http.MethodDelete, "/api/v1/nodes/x", "", nil); code != http.StatusForbidden {
		t.Errorf("masters of a and nodes: %d", code)
	}
	if code, _ := get(t, masters.config, "/metrics"); code != http.StatusForbidden {
		t.Errorf("masters of a and metrics: %d", code)
	}
	// Impersonation stays within the tenant.
	asAlice := rest.CopyConfig(a.config)
	asAlice.Impersonate = rest.ImpersonationConfig{UserName: "alice", Groups: []string{"devs"}}
	me, err = p.as(t, "a", asAlice).client.AuthenticationV1().SelfSubjectReviews().Create(ctx,
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || me.Status.UserInfo.Username != "alice" {
		t.Errorf("impersonation: %+v, %v", me.Status.UserInfo, err)
	}
	for _, headers := range [][]string{
		{"Impersonate-User: alice", "Impersonate-Extra-a4s.io%2Ftenant: b"},
		{"Impersonate-User: system:admin", "Impersonate-Group: system:masters"},
		{"Impersonate-User: system:serviceaccount:default.b:default"},
	} {
		// It may be somebody of the tenant who is called so.
		code, body := do(t, a.config, http.MethodDelete, "/api/v1/nodes/x", "", headers)
		if code != http.StatusForbidden {
			t.Errorf("%v: %d %.200s", headers, code, body)
		}
	}
	sar, err := a.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
		&authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "default",
					Verb: "create", Resource: "pods"},
			},
		}, metav1.CreateOptions{})
	if err != nil || !sar.Status.Allowed {
		t.Errorf("can-i create pods: %+v, %v", sar.Status, err)
	}
	rules, err := a.client.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx,
		&authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"},
		}, metav1.CreateOptions{})
	if err != nil || len(rules.Status.ResourceRules) == 0 {
		t.Errorf("can-i --list: %v, %v", rules.Status, err)
	}
}

func testRoles(t *testing.T, p *plane, a, b *space) {
	ctx := t.Context()
	bob := p.as(t, "a", p.user(t, "bob", []string{"tenant:a"}, []string{"readers"}))
	if _, err := bob.client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("bob without a role: %v", err)
	}
	for _, s := range []*space{a, b} {
		if _, err := s.client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "reader",
				Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""},
				Resources: []string{"secrets"}}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.client.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: "rbac.authorization.k8s.io", Name: "readers"},
			{Kind: "ServiceAccount", Namespace: "default", Name: "default"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the role of bob", func(ctx context.Context) (bool, error) {
		_, err := bob.client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	if _, err := bob.client.CoreV1().Secrets("kube-system").List(ctx,
		metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("bob in another namespace: %v", err)
	}
	binding, err := a.client.RbacV1().RoleBindings("default").Get(ctx, "readers", metav1.GetOptions{})
	if err != nil || binding.RoleRef.Name != "reader" || binding.Subjects[1].Namespace != "default" {
		t.Errorf("binding: %+v, %v", binding, err)
	}
	// Nobody gives what they do not have.
	if _, err := bob.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "escalate"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: "bob"}},
	}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("escalation: %v", err)
	}
	// The default roles are there, and nobody's to change.
	if role, err := a.client.RbacV1().ClusterRoles().Get(ctx, "view", metav1.GetOptions{}); err != nil ||
		len(role.Rules) == 0 {
		t.Errorf("role view: %v", err)
	}
	roles, err := a.client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for _, r := range roles.Items {
		names[r.Name]++
	}
	if names["reader"] != 1 || names["view"] != 1 || names["system:basic-user"] != 1 {
		t.Errorf("roles in the list: %v", names)
	}
	for _, name := range []string{"view", "system:mine"} {
		if _, err := a.client.RbacV1().ClusterRoles().Create(ctx,
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err == nil {
			t.Errorf("a tenant could make the role %s", name)
		}
		if err := a.client.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{}); err == nil {
			t.Errorf("a tenant could delete the role %s", name)
		}
	}
	testAggregatedRoles(t, p, a, bob)
}

// testAggregatedRoles has the role reader of a space, which adds secrets to view, and one
// of the system space, which adds pipelines.
func testAggregatedRoles(t *testing.T, p *plane, a, bob *space) {
	ctx := t.Context()
	if _, err := p.admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "operator",
			Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"example.com"},
			Resources: []string{"pipelines"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	gives := func(client kubernetes.Interface, name, resource string) bool {
		t.Helper()
		role, err := client.RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, "get")
		})
	}
	eventually(t, "the role of the operator in view", func(context.Context) (bool, error) {
		return gives(p.admin, "view", "pipelines"), nil
	})
	if gives(p.admin, "view", "secrets") {
		t.Error("the role of a tenant was aggregated into view of the system space")
	}
	none := p.bareTenant(t, "without-roles")
	for _, c := range []struct {
		s                  *space
		secrets, pipelines bool
	}{{a, true, false}, {none, false, false}} {
		if gives(c.s.client, "view", "secrets") != c.secrets || gives(c.s.client, "view",
			"pipelines") != c.pipelines ||
			!gives(c.s.client, "view", "pods") || !gives(c.s.client, "edit", "pods") {
			t.Errorf("%s: view gives the wrong things", c.s.name)
		}
	}
	// An aggregated role of a tenant finds the default ones, as they are in its space.
	if _, err := a.client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "viewers"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the aggregated role of a tenant", func(context.Context) (bool, error) {
		return gives(a.client, "viewers", "secrets") && gives(a.client, "viewers", "pods"), nil
	})
	if gives(a.client, "viewers", "pipelines") {
		t.Error("an aggregated role of a tenant gives what one of the system space does")
	}
	// What view gives is what who has it may do.
	if _, err := a.client.RbacV1().RoleBindings("kube-system").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "viewers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: "bob"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the role view of bob", func(ctx context.Context) (bool, error) {
		_, err := bob.client.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	if code, body := get(t, bob.config, "/apis/example.com/v1/namespaces/kube-system/pipelines/x"); code !=
		http.StatusForbidden && code != http.StatusNotFound {
		t.Errorf("pipelines: %d %.200s", code, body)
	}
	review, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "bob",
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: "kube-system", Verb: "get", Group: "example.com", Resource: "pipelines"}},
	}, metav1.CreateOptions{})
	if err != nil || review.Status.Allowed {
		t.Errorf("pipelines in a tenant: %+v, %v", review, err)
	}
}

func testSystemKinds(t *testing.T, a *space) {
	ctx := t.Context()
	_, err := a.client.AppsV1().DaemonSets("default").Create(ctx,
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "Deployment") {
		t.Errorf("a DaemonSet: %v", err)
	}
	for _, path := range []string{"/api/v1/tenants", "/api/v1/componentstatuses", "/api/v1/nodes/x/proxy/",
		"/apis/metrics.k8s.io/v1beta1/nodes"} {
		if code, body := get(t, a.config, path); code != http.StatusForbidden {
			t.Errorf("GET %s: %d %.200s", path, code, body)
		}
	}
	for _, path := range []string{"/apis/storage.k8s.io/v1/storageclasses",
		"/apis/scheduling.k8s.io/v1/priorityclasses",
		"/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical"} {
		if code, body := get(t, a.config, path); code != http.StatusOK ||
			!strings.Contains(path+body, "system-node-critical") && strings.Contains(path, "priority") {
			t.Errorf("GET %s: %d %.200s", path, code, body)
		}
	}
	if code, body := do(t, a.config, http.MethodPost, "/apis/scheduling.k8s.io/v1/priorityclasses",
		`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"mine"},"value":1}`,
		nil); code != http.StatusForbidden {
		t.Errorf("making a PriorityClass: %d %.200s", code, body)
	}
}
