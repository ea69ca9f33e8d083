package spaces_test

import (
	"context"
	"reflect"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testBoundTokens: a token bound to a pod is good as long as the pod is.
func testBoundTokens(t *testing.T, p *plane, s *space, namespace string) {
	ctx := t.Context()
	pod, err := s.client.CoreV1().Pods(namespace).Create(ctx, simplePod("bound"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	account := p.account(t, s, namespace, "default",
		&authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "bound", UID: pod.UID})
	whoami := func(ctx context.Context) (authenticationv1.UserInfo, error) {
		r, err := account.client.AuthenticationV1().SelfSubjectReviews().Create(ctx,
			&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return authenticationv1.UserInfo{}, err
		}
		return r.Status.UserInfo, nil
	}
	me, err := whoami(ctx)
	if names := me.Extra["authentication.kubernetes.io/pod-name"]; err != nil ||
		me.Username != "system:serviceaccount:"+namespace+":default" || len(names) != 1 || names[0] != "bound" {
		t.Errorf("the token of a pod: %+v, %v", me, err)
	}
	if _, err := s.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "default",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "none"},
		}}, metav1.CreateOptions{}); !apierrors.IsNotFound(err) || err.Error() != `pods "none" not found` {
		t.Errorf("a token of a pod that is not there: %v", err)
	}
	if err := s.client.CoreV1().Pods(namespace).Delete(ctx, "bound", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the token to be refused", func(ctx context.Context) (bool, error) {
		_, err := whoami(ctx)
		return apierrors.IsUnauthorized(err), nil
	})
}

// testGarbage: owners are found by the names that the tenant gives them.
func testGarbage(t *testing.T, _ *plane, s *space, namespace string) {
	ctx := t.Context()
	maps := s.client.CoreV1().ConfigMaps(namespace)
	owned := func(name string, owner metav1.OwnerReference) {
		t.Helper()
		cm := configMap(name)
		cm.OwnerReferences = []metav1.OwnerReference{owner}
		made, err := maps.Create(ctx, cm, metav1.CreateOptions{})
		if err != nil || !reflect.DeepEqual(made.OwnerReferences, cm.OwnerReferences) {
			t.Fatalf("%s: %+v, %v", name, made.OwnerReferences, err)
		}
	}
	collected := func(names ...string) {
		t.Helper()
		for _, name := range names {
			eventually(t, name+" to be collected", func(ctx context.Context) (bool, error) {
				_, err := maps.Get(ctx, name, metav1.GetOptions{})
				return apierrors.IsNotFound(err), nil
			})
		}
	}
	blocks := true
	owner, err := maps.Create(ctx, configMap("owner"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned("of-a-map", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID,
		BlockOwnerDeletion: &blocks})
	role, err := s.client.RbacV1().ClusterRoles().Create(ctx,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned("of-a-role", metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole",
		Name: "owner", UID: role.UID})
	disk := netVolume("owner")
	disk.Spec.StorageClassName = "none"
	if disk, err = s.client.CoreV1().PersistentVolumes().Create(ctx, disk, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	owned("of-a-volume",
		metav1.OwnerReference{APIVersion: "v1", Kind: "PersistentVolume", Name: "owner", UID: disk.UID})
	owned("of-nobody", metav1.OwnerReference{APIVersion: "v1", Kind: "PersistentVolume", Name: "nobody",
		UID: "00000000-0000-0000-0000-000000000000"})
	collected("of-nobody")
	for _, name := range []string{"of-a-map", "of-a-role", "of-a-volume"} {
		if _, err := maps.Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Errorf("%s was collected although its owner is there: %v", name, err)
		}
	}
	foreground, background := metav1.DeletePropagationForeground, metav1.DeletePropagationBackground
	if err := maps.Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	collected("of-a-map", "owner")
	if err := s.client.RbacV1().ClusterRoles().Delete(ctx, "owner",
		metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	if err := s.client.CoreV1().PersistentVolumes().Delete(ctx, "owner",
		metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	collected("of-a-role", "of-a-volume")
}

// testAggregation: a role collects the labelled roles of its own tenant.
func testAggregation(t *testing.T, _ *plane, s *space, _ string) {
	ctx := t.Context()
	roles := s.client.RbacV1().ClusterRoles()
	labels := map[string]string{"collect": "me"}
	for _, role := range []*rbacv1.ClusterRole{
		{ObjectMeta: metav1.ObjectMeta{Name: "sum"}, AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: labels}},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "part", Labels: labels},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""},
				Resources: []string{"configmaps"}, ResourceNames: []string{s.name}}}},
	} {
		if _, err := roles.Create(ctx, role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the sum of the roles", func(ctx context.Context) (bool, error) {
		sum, err := roles.Get(ctx, "sum", metav1.GetOptions{})
		if err != nil || len(sum.Rules) == 0 {
			return false, err
		}
		if len(sum.Rules) != 1 || sum.Rules[0].ResourceNames[0] != s.name ||
			len(sum.AggregationRule.ClusterRoleSelectors[0].MatchLabels) != 1 {
			t.Errorf("sum: %+v by %+v", sum.Rules, sum.AggregationRule)
		}
		return true, nil
	})
}
