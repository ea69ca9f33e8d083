package admission

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/cel-go/cel"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authz"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// rolesOf are those of a tenant, who lets a service account read secrets, and a user
// one volume and one namespace.
func rolesOf(tenant string) []runtime.Object {
	name := func(native string) string { return space.ClusterName(tenant, native) }
	namespace := space.Namespace(tenant, "default")
	role := func(native string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name(native)}, Rules: rules}
	}
	bind := func(native string, s rbacv1.Subject) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name(native)},
			Subjects: []rbacv1.Subject{s},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name(native)}}
	}
	return []runtime.Object{
		role("reads", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""},
			Resources: []string{"secrets"}}),
		bind("reads", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "web"}),
		role("one", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"", "example.com"},
			Resources:     []string{"persistentvolumes", "namespaces", "widgets"},
			ResourceNames: []string{"pv1", "default"}}),
		bind("one", rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "alice"}),
		bind("admin", rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "admin"}),
		role("admin", rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}),
	}
}

// asker answers expressions of t1's policies.
type asker struct {
	env      *cel.Env
	programs map[string]cel.Program
}

func newAsker(t *testing.T) *asker {
	t.Helper()
	env, err := cel.NewEnv(library.Authz(), library.AuthzSelectors(),
		cel.Variable("authorizer", library.AuthorizerType))
	if err != nil {
		t.Fatal(err)
	}
	return &asker{env, map[string]cel.Program{}}
}

// in is for a cluster with these roles.
func (a *asker) in(t *testing.T, roles ...runtime.Object) func(user.Info, string) string {
	t.Helper()
	f := informers.NewSharedInformerFactory(fake.NewClientset(roles...), 0)
	listers, err := authz.NewListers(f)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.Start(ctx.Done())
	t.Cleanup(func() { cancel(); f.Shutdown() })
	f.WaitForCacheSync(ctx.Done())
	nothing := authorizer.AuthorizerFunc(func(
		context.Context, authorizer.Attributes,
	) (authorizer.Decision, string, error) {
		return authorizer.DecisionNoOpinion, "", nil
	})
	inner, err := authz.Wrap(nothing, authz.Options{Roles: listers, SystemRBAC: true})
	if err != nil {
		t.Fatal(err)
	}
	c := composing{inner, kinds.New(), "t1"}
	return func(u user.Info, expression string) string {
		t.Helper()
		program := a.programs[expression]
		if program == nil {
			ast, issues := a.env.Compile(`[string(` + expression + `.allowed()), ` + expression + `.reason(), ` +
				expression + `.error()]`)
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			if program, err = a.env.Program(ast); err != nil {
				t.Fatal(err)
			}
			a.programs[expression] = program
		}
		out, _, err := program.Eval(map[string]any{"authorizer": library.NewAuthorizerVal(u, c)})
		if err != nil {
			return "error: " + err.Error()
		}
		words, err := out.ConvertToNative(reflect.TypeFor[[]string]())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(words)
	}
}

// TestWallW14AuthorizerInPolicies: whatever a policy of a tenant asks the authorizer,
// the answer is about its own space, and is the same whatever there is outside.
func TestWallW14AuthorizerInPolicies(t *testing.T) {
	view := &wire.View{Tenant: "t1"}
	asUser := func(name string) user.Info {
		return nativeUser(view, &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated},
			Extra: map[string][]string{space.Extra: {"t1"}}})
	}
	users := map[string]user.Info{
		"admin": asUser("admin"), "alice": asUser("alice"), "nobody": asUser("nobody"),
		"account": nativeUser(view, &user.DefaultInfo{Name: "system:serviceaccount:default.t1:web"}),
		"controller": nativeUser(view, &user.DefaultInfo{
			Name: "system:serviceaccount:kube-system:replicaset-controller"}),
	}
	alone := rolesOf("t1")
	system := []runtime.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "controls"}, Rules: []rbacv1.PolicyRule{{
			Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
			{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "controls"},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "controls"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "sysop"},
				{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "default"}}},
	}
	asks := newAsker(t)
	worlds := map[string]func(user.Info, string) string{
		"alone":       asks.in(t, alone...),
		"with t2":     asks.in(t, append(rolesOf("t2"), alone...)...),
		"with others": asks.in(t, slices.Concat(rolesOf("t2"), rolesOf("t3"), system, alone)...),
	}
	for who, u := range users {
		for _, expression := range questionsOfPolicies() {
			want := worlds["alone"](u, expression)
			for _, world := range slices.Sorted(maps.Keys(worlds)) {
				if got := worlds[world](u, expression); got != want {
					t.Errorf("%s, %s, %s: %s, and alone %s", world, who, expression, got, want)
				}
			}
		}
	}
	// What is not only the same, but right.
	for _, c := range []struct {
		who, ask string
		allowed  bool
	}{
		{"admin", `group("").resource("secrets").namespace("default").check("get")`, true},
		{"alice", `group("").resource("persistentvolumes").name("pv1").check("get")`, true},
		{"alice", `group("").resource("persistentvolumes").name("pv1.t1.tenant").check("get")`, false},
		{"alice", `group("").resource("persistentvolumes").name("pv1.t2.tenant").check("get")`, false},
		{"admin", `group("").resource("persistentvolumes").name("pv1.t2.tenant").check("get")`, true},
		{"alice", `group("").resource("namespaces").name("default").check("get")`, true},
		{"alice", `group("").resource("namespaces").name("default.t1").check("get")`, false},
		{"alice", `group("example.com").resource("widgets").name("pv1").check("get")`, true},
		{"alice", `group("example.com").resource("widgets").name("pv1.t1.tenant").check("get")`, false},
		{"alice", `group("").resource("secrets").namespace("default").check("get")`, false},
		{"alice", `serviceAccount("default","web").group("").resource("secrets").check("get")`, true},
		{"account", `group("").resource("secrets").namespace("default").check("get")`, true},
		{"alice", `serviceAccount("default","default").group("").resource("secrets").check("get")`, false},
		{"alice", `serviceAccount("kube-system","web").group("").resource("secrets").check("get")`, false},
		{"admin", `group("").resource("nodes").check("list")`, true}, // of nothing, unless they read nodes
		{"admin", `group("").resource("nodes").check("delete")`, false},
		{"admin", `path("/metrics").check("get")`, false},
		{"controller", `group("").resource("nodes").check("list")`, false},
		{"controller", `path("/metrics").check("get")`, false},
	} {
		if got := worlds["with others"](users[c.who], "authorizer."+c.ask)[:5] == "[true"; got != c.allowed {
			t.Errorf("%s: %s: %t", c.who, c.ask, got)
		}
	}
}

// questionsOfPolicies are made of all words of the library: see TestQuestionHasAllFields
// of server/tenancy/authz for those of the authorizer.
func questionsOfPolicies() (out []string) {
	accounts := []string{"", `.serviceAccount("default","web")`, `.serviceAccount("default","default")`,
		`.serviceAccount("kube-system","replicaset-controller")`}
	for _, account := range accounts {
		for _, path := range []string{"/", "/metrics", "/api", "/apis/apps", "/tenants/t2/api",
			"/partitions/tp2/api"} {
			out = append(out, `authorizer`+account+`.path("`+path+`").check("get")`)
		}
		for _, resource := range []string{`group("").resource("secrets")`, `group("").resource("persistentvolumes")`,
			`group("").resource("namespaces")`, `group("").resource("nodes")`, `group("").resource("tenants")`,
			`group("storage.k8s.io").resource("storageclasses")`, `group("example.com").resource("widgets")`,
			`group("rbac.authorization.k8s.io").resource("clusterroles")`,
			`group("").resource("pods").subresource("exec")`, `group("").resource("users")`,
			`group("authentication.k8s.io").resource("userextras").subresource("a4s.io/tenant")`} {
			for _, namespace := range []string{"", "default", "default.t1", "default.t2", "default.t2.t1",
				"kube-system"} {
				for _, name := range []string{"", "pv1", "pv1.t1.tenant", "pv1.t2.tenant", "default.t2",
					"reads.t2.tenant", "t2", "system:serviceaccount:default.t2:web", "*"} {
					for _, more := range []string{`.check("get")`,
						`.fieldSelector("metadata.namespace=default.t2").labelSelector("t2").check("list")`,
						`.fieldSelector("!").labelSelector("!!").check("impersonate")`} {
						ask := resource
						if namespace != "" {
							ask += `.namespace("` + namespace + `")`
						}
						if name != "" {
							ask += `.name("` + name + `")`
						}
						out = append(out, `authorizer`+account+`.`+ask+more)
					}
				}
			}
		}
	}
	return out
}
