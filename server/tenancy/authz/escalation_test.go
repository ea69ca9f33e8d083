package authz

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/rbac"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"
	clusterroleguard "k8s.io/kubernetes/pkg/registry/rbac/clusterrole/policybased"
	clusterrolebindingguard "k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding/policybased"
	roleguard "k8s.io/kubernetes/pkg/registry/rbac/role/policybased"
	rolebindingguard "k8s.io/kubernetes/pkg/registry/rbac/rolebinding/policybased"

	"github.com/a4s-io/a4s/internal/space"
)

// stored is a storage that takes everything and has some ClusterRoles; those
// of the system cannot be read in the space of a tenant.
type stored struct {
	rest.StandardStorage
	roles map[string]*rbac.ClusterRole
}

func (s stored) Create(
	_ context.Context, obj runtime.Object, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions,
) (runtime.Object, error) {
	return obj, nil
}

func (s stored) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	of, _ := space.SplitClusterName(name)
	r, ok := s.roles[name]
	if in, addressed := space.FromContext(ctx); !ok || (addressed && in != of) {
		return nil, apierrors.NewNotFound(rbacv1.Resource("clusterroles"), name)
	}
	return r, nil
}

func TestGuardStorage(t *testing.T) {
	roles := stored{roles: map[string]*rbac.ClusterRole{}}
	objs := append(objects(),
		clusterRole("granter.t1.tenant", rule("create", rbacv1.GroupName,
			"roles,clusterroles,rolebindings,clusterrolebindings"), rule("get", "", "pods")),
		clusterBinding("granter.t1.tenant", "granter.t1.tenant", "User:gina"),
	)
	for _, o := range append(objs, clusterRole("new.t1.tenant", rule("get", "", "pods"))) {
		if r, ok := o.(*rbacv1.ClusterRole); ok {
			internal := &rbac.ClusterRole{}
			if err := rbacv1helpers.Convert_v1_ClusterRole_To_rbac_ClusterRole(r, internal, nil); err != nil {
				t.Fatal(err)
			}
			roles.roles[r.Name] = internal
		}
	}
	l := listers(t, objs...)
	a := wrap(t, authorizer.AuthorizerFunc(upstream), Options{Roles: l, SystemRBAC: true})
	storage := map[string]rest.Storage{
		"roles":               roleguard.NewStorage(roles, nil, nil),
		"rolebindings":        rolebindingguard.NewStorage(roles, nil, nil),
		"clusterroles":        clusterroleguard.NewStorage(roles, nil, nil),
		"clusterrolebindings": clusterrolebindingguard.NewStorage(roles, nil, nil),
	}
	binding, err := GuardStorage(storage, a, l)
	if err != nil {
		t.Fatal(err)
	}
	bind := func(to string) runtime.Object {
		return &rbac.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "new"},
			RoleRef: rbac.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: to}}
	}
	create := func(verb, group, resource string) runtime.Object {
		return &rbac.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Rules: []rbac.PolicyRule{
			{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}},
		}}
	}
	gina := in("t1", "gina")
	for _, c := range []struct {
		name     string
		user     user.Info
		space    string
		resource string
		obj      runtime.Object
		allowed  bool
	}{
		{"what he has", gina, "t1", "clusterroles", create("get", "", "pods"), true},
		{"what he has not", gina, "t1", "clusterroles", create("get", "", "secrets"), false},
		{"what everybody has", gina, "t1", "clusterroles",
			create("create", "authentication.k8s.io", "selfsubjectreviews"), true},
		{"a role that was just made", gina, "t1", "clusterrolebindings", bind("new.t1.tenant"), true},
		{"a default role he has", gina, "t1", "clusterrolebindings", bind("system:basic-user"), true},
		{"a default role he has not", gina, "t1", "clusterrolebindings", bind("cluster-admin"), false},
		{"administrator, default role", in("t1", "admin"), "t1", "clusterrolebindings", bind("cluster-admin"), true},
		{"masters, default role", in("t1", "boss", user.SystemPrivilegedGroup), "t1", "clusterrolebindings",
			bind("cluster-admin"), true},
		{"administrator of another tenant", in("t2", "admin"), "t1", "clusterroles", create("get", "", "pods"), false},
		{"system user, what a tenant gave him", in("", "sysop"), "", "clusterrolebindings",
			bind("cluster-admin"), false},
		{"system user, what a tenant gave him in his space", in("", "sysop"), "t1", "clusterroles",
			create("get", "", "secrets"), false},
		{"system user, what he has", in("", "sysop"), "", "clusterroles", create("get", "", "pods"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := request.WithUser(t.Context(), c.user)
			if c.space != "" {
				ctx = space.WithTenant(ctx, c.space)
			}
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: "create",
				APIGroup: rbacv1.GroupName, Resource: c.resource})
			_, err := storage[c.resource].(rest.Creater).Create(ctx, c.obj, nil, nil)
			if (err == nil) != c.allowed || (err != nil && !apierrors.IsForbidden(err)) {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, c := range []struct {
		name, role, namespace string
		user                  user.Info
		allowed               bool
	}{
		{"a role that was just made, which they have", "new.t1.tenant", "", gina, true},
		{"in a namespace", "new.t1.tenant", "default.t1", gina, true},
		{"what they have not", "cluster-admin", "", gina, false},
		{"what they have not, in a namespace", "cluster-admin", "default.t1", gina, false},
		{"what is not there", "none.t1.tenant", "", gina, false},
		{"an administrator", "cluster-admin", "", in("t1", "admin"), true},
		{"an administrator, what is not there", "none.t1.tenant", "default.t1", in("t1", "admin"), true},
		{"the administrator of another tenant", "cluster-admin", "", in("t2", "admin"), false},
		{"a system user by what a tenant gave them", "cluster-admin", "", in("", "sysop"), false},
	} {
		ctx := request.WithRequestInfo(space.WithTenant(request.WithUser(t.Context(), c.user), "t1"),
			&request.RequestInfo{IsResourceRequest: true, Verb: "create", Resource: "tenantaccesses"})
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: c.role}
		if err := binding.May(ctx, ref, c.namespace); (err == nil) != c.allowed {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := GuardStorage(map[string]rest.Storage{"roles": roles}, a, l); err == nil {
		t.Error("storage of another kind was taken")
	}
}
