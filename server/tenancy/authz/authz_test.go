package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/a4s-io/a4s/internal/space"
)

func nsRole(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func rule(verbs, group, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{group},
		Resources: strings.Split(resources, ","), ResourceNames: names}
}

func subject(name string) []rbacv1.Subject {
	if ns, account, ok := strings.Cut(name, "/"); ok {
		return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: account}}
	}
	kind, name, _ := strings.Cut(name, ":")
	return []rbacv1.Subject{{Kind: kind, APIGroup: rbacv1.GroupName, Name: name}}
}

func clusterBinding(name, to, who string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: to}, Subjects: subject(who)}
}

func binding(namespace, kind, to, who string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: to + "-" + strings.NewReplacer(":", "-", "/", "-").Replace(who)},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: to}, Subjects: subject(who)}
}

// objects are the roles of the system and of two tenants.
func objects() []runtime.Object {
	var out []runtime.Object
	for _, r := range bootstrappolicy.ClusterRoles() {
		out = append(out, &r)
	}
	for _, b := range bootstrappolicy.ClusterRoleBindings() {
		out = append(out, &b)
	}
	out = append(out,
		clusterRole("pod-reader", rule("get,list", "", "pods,nodes")),
		clusterBinding("pod-reader", "pod-reader", "User:sysop"),
		clusterBinding("bob-lists", "pod-reader", "User:bob"),
	)
	for _, t := range []string{"t1", "t2"} {
		out = append(out,
			clusterBinding("admin."+t+".tenant", "cluster-admin", "User:admin"),
			// What would make anybody an administrator of the cluster.
			clusterBinding("evil."+t+".tenant", "cluster-admin", "User:sysop"),
			clusterBinding("evil-group."+t+".tenant", "cluster-admin", "Group:system:bootstrappers"),
		)
	}
	return append(out,
		clusterRole("pv."+"t1.tenant", rule("get", "", "persistentvolumes", "pv1"),
			rule("get,delete", "", "namespaces", "default"),
			rule("get", "example.com", "widgets", "w1"), rule("bind", rbacv1.GroupName, "clusterroles", "pv")),
		clusterBinding("pv.t1.tenant", "pv.t1.tenant", "User:alice"),
		clusterRole("as.t1.tenant", rule("impersonate", "", "users", "bob"),
			rule("impersonate", "", "groups", "devs", "system:serviceaccounts:default"),
			rule("impersonate", "", "serviceaccounts", "web"),
			rule("impersonate:user-info", "authentication.k8s.io", "users", "bob"),
			rule("impersonate-on:user-info:get", "", "pods"),
			rule("impersonate-on:user-info:get", "storage.k8s.io", "storageclasses")),
		clusterBinding("as.t1.tenant", "as.t1.tenant", "User:lead"),
		nsRole("default.t1", "readers", rule("get,list", "", "pods", "web-0"), rule("get", "", "pods/log")),
		binding("default.t1", "Role", "readers", "User:alice"),
		binding("default.t1", "ClusterRole", "system:aggregate-to-view", "default.t1/web"),
		binding("default.t1", "ClusterRole", "pv.t1.tenant", "Group:devs"),
		binding("default.t1", "ClusterRole", "system:aggregate-to-edit", "User:sysop"),
		// Roles of another tenant say nothing, wherever they are named.
		clusterRole("all.t2.tenant", rule("*", "*", "*")),
		clusterBinding("stolen.t1.tenant", "all.t2.tenant", "User:mallory"),
		binding("default.t1", "Role", "gone", "User:mallory"),
		clusterRole("system:odd.t2.tenant", rule("*", "*", "*")),
		clusterBinding("odd.t1.tenant", "system:odd.t2.tenant", "User:mallory"),
		clusterBinding("system-role.t1.tenant", "pod-reader", "User:mallory"),
	)
}

func listers(t *testing.T, objs ...runtime.Object) *Listers {
	t.Helper()
	f := informers.NewSharedInformerFactory(fake.NewClientset(objs...), 0)
	l, err := NewListers(f)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.Start(ctx.Done())
	t.Cleanup(func() { cancel(); f.Shutdown() })
	for kind, ok := range f.WaitForCacheSync(ctx.Done()) {
		if !ok {
			t.Fatal("no cache of", kind)
		}
	}
	return l
}

// upstream allows members of system:masters everything, as upstream does
// before it looks at anything else.
func upstream(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if slices.Contains(a.GetUser().GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "masters", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func in(tenant, name string, groups ...string) *user.DefaultInfo {
	u := &user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}
	if tenant != "" {
		u.Extra = map[string][]string{space.Extra: {tenant}}
	}
	return u
}

// want is a request in short: "verb group/resource[/subresource] [namespace:]name",
// or "verb /path".
func want(u user.Info, s string) authorizer.AttributesRecord {
	fields := strings.Fields(s)
	a := authorizer.AttributesRecord{User: u, Verb: fields[0]}
	if strings.HasPrefix(fields[1], "/") && !strings.HasPrefix(fields[1], "//") {
		a.Path = fields[1]
		return a
	}
	a.ResourceRequest = true
	group, resource, ok := strings.Cut(strings.TrimPrefix(fields[1], "//"), "|")
	if !ok {
		group, resource = "", group
	}
	a.APIGroup = group
	a.Resource, a.Subresource, _ = strings.Cut(resource, "/")
	if len(fields) > 2 {
		ns, name, ok := strings.Cut(fields[2], "=")
		if !ok {
			ns, name = "", ns
		}
		a.Namespace, a.Name = ns, name
	}
	return a
}

// TestBindingOfClaims: a review says what a request is answered. By what is bound admission
// decides.
func TestBindingOfClaims(t *testing.T) {
	a := wrap(t, authorizer.AuthorizerFunc(upstream), Options{Roles: listers(t, objects()...), SystemRBAC: true})
	for _, c := range []struct {
		subresource string
		want        authorizer.Decision
	}{{"binding", authorizer.DecisionAllow}, {"driver", authorizer.DecisionDeny}} {
		ask := want(in("t1", "admin"), "update resource.k8s.io|resourceclaims/"+c.subresource)
		for _, group := range []string{"authorization.k8s.io", "resource.k8s.io"} {
			ctx := request.WithRequestInfo(space.WithTenant(t.Context(), "t1"),
				&request.RequestInfo{IsResourceRequest: true, APIGroup: group})
			if got, reason, err := a.Authorize(ctx, ask); got != c.want || err != nil {
				t.Errorf("%s, asked for %s: %v, %s, %v", c.subresource, group, got, reason, err)
			}
		}
	}
}

func TestAuthorize(t *testing.T) {
	a := wrap(t, authorizer.AuthorizerFunc(upstream), Options{Roles: listers(t, objects()...), SystemRBAC: true})
	admin, alice, lead, mallory := in("t1", "admin"), in("t1", "alice"), in("t1", "lead"), in("t1", "mallory")
	masters := in("t1", "boss", "system:masters.t1")
	foreign := in("t1", "boss", "system:masters.t2")
	account := in("t1", "system:serviceaccount:default.t1:web", "system:serviceaccounts",
		"system:serviceaccounts:default.t1")
	sysop, root := in("", "sysop"), in("", "root", user.SystemPrivilegedGroup)

	for _, c := range []struct {
		name    string
		user    user.Info
		space   string // "" is none
		ask     string
		allowed bool
		reason  string // part of the reason
	}{
		{"admin in his space", admin, "t1", "create pods default.t1=", true, "cluster-admin"},
		{"admin across his namespaces", admin, "t1", "list pods", true, ""},
		{"admin in another space", admin, "t2", "list pods", false, `tenant "t1" cannot reach space "t2"`},
		{"admin in the system space", admin, "system", "list pods", false, `cannot reach space "system"`},
		{"admin in all spaces", admin, "all", "list pods", false, "cannot reach"},
		{"admin in a namespace of another", admin, "t1", "list pods default.t2=", false, "other spaces"},
		{"admin in a namespace of the system", admin, "t1", "list pods kube-system=", false, "other spaces"},
		{"admin by a foreign name", admin, "t1", "get persistentvolumes pv1.t2.tenant", false, "other spaces"},
		{"admin by a name of the system", admin, "t1", "get persistentvolumes pv1", false, "other spaces"},
		{"admin by a foreign Namespace", admin, "t1", "get namespaces default.t2=default.t2", false, "other spaces"},
		{"admin by a foreign custom resource", admin, "t1", "get example.com|widgets w1.t2.tenant",
			false, "other spaces"},
		{"admin, custom resource", admin, "t1", "create example.com|widgets w1.t1.tenant", true, ""},
		{"masters in his space", masters, "t1", "delete namespaces default.t1=default.t1", true, "cluster-admin"},
		{"masters of another space", foreign, "t1", "get pods default.t1=web", false, ""},
		{"masters in another space", masters, "t2", "get pods default.t2=web", false, "cannot reach"},
		{"masters, of the system", masters, "t1", "create nodes", false, "nodes belong to the cluster"},
		{"masters, paths", masters, "t1", "get /metrics", false, "belongs to the cluster"},

		{"role, right name", alice, "t1", "get pods default.t1=web-0", true,
			`RoleBinding "readers-User-alice/default"`},
		{"role, wrong name", alice, "t1", "get pods default.t1=web-1", false, ""},
		{"admin, all objects", admin, "t1", "get configmaps *=*", true, ""},
		{"admin, all cluster-scoped objects", admin, "t1", "get persistentvolumes *", true, ""},
		{"admin, all nodes", admin, "t1", "get nodes *", false, ""},
		{"role, all objects", alice, "t1", "get pods *=*", false, ""},
		{"cluster role of one, all", alice, "t1", "get persistentvolumes *", false, ""},
		{"role, another namespace", alice, "t1", "get pods kube-system.t1=web-0", false, ""},
		{"role, subresource", alice, "t1", "get pods/log default.t1=web-1", true, ""},
		{"role, no subresource", alice, "t1", "create pods/exec default.t1=web-0", false, ""},
		{"native name of a cluster-scoped object", alice, "t1", "get persistentvolumes pv1.t1.tenant", true,
			`ClusterRoleBinding "pv" of ClusterRole "pv" to User "alice"`},
		{"another native name", alice, "t1", "get persistentvolumes pv2.t1.tenant", false, ""},
		{"native name of a Namespace", alice, "t1", "delete namespaces default.t1=default.t1", true, ""},
		{"another Namespace", alice, "t1", "delete namespaces prod.t1=prod.t1", false, ""},
		{"native name of a custom resource", alice, "t1", "get example.com|widgets w1.t1.tenant", true, ""},
		{"native name of a namespaced custom resource", alice, "t1",
			"get example.com|widgets default.t1=w1", true, ""},
		{"same user of another tenant", in("t2", "alice"), "t2", "get persistentvolumes pv1.t2.tenant", false, ""},
		{"binding of a role", alice, "t1", "bind rbac.authorization.k8s.io|clusterroles pv.t1.tenant", true, ""},
		{"group in a namespace", in("t1", "dave", "devs"), "t1", "get namespaces default.t1=default.t1", true, ""},
		{"group elsewhere", in("t1", "dave", "devs"), "t1", "get persistentvolumes pv1.t1.tenant", false, ""},
		{"service account", account, "t1", "list pods default.t1=", true, ""},
		{"service account in another namespace", account, "t1", "list pods kube-system.t1=", false, ""},
		{"service account without extra attributes", &user.DefaultInfo{Name: account.Name}, "t1",
			"list pods default.t1=", true, ""},
		{"service account of another tenant", &user.DefaultInfo{Name: "system:serviceaccount:default.t2:web"}, "t1",
			"list pods default.t1=", false, "cannot reach"},
		{"user of two tenants", &user.DefaultInfo{Name: "x", Extra: map[string][]string{space.Extra: {"t1", "t2"}}},
			"t1", "list pods", false, "cannot reach"},
		{"role of another tenant", mallory, "t1", "list secrets", false, `"all.t2.tenant" not found`},
		{"no user", nil, "t1", "list pods", false, "no user"},

		{"of the system", admin, "t1", "delete nodes n1", false, "nodes belong to the cluster"},
		{"nodes can be listed, there may be none", admin, "t1", "list nodes", true, ""},
		{"nodes are listed by role", mallory, "t1", "list nodes", false, ""},
		{"of the system, by subresource", admin, "t1", "get nodes/proxy n1", false, "nodes belong to the cluster"},
		{"DaemonSet", admin, "t1", "create apps|daemonsets default.t1=", false, "use a Deployment"},
		{"DaemonSets can be listed, there are none", admin, "t1", "list apps|daemonsets default.t1=", true, ""},
		{"DaemonSets are listed by role", mallory, "t1", "list apps|daemonsets default.t1=", false, ""},
		{"DaemonSets are not deleted", admin, "t1", "delete apps|daemonsets default.t1=x", false, "use a Deployment"},
		{"tenants", admin, "t1", "get tenants t1", false, "made by the administrators"},
		{"binding of pods", admin, "t1", "create pods/binding default.t1=web", false, "only the scheduler"},
		{"speaks for a driver of devices", masters, "t1",
			"arbitrary-node:update resource.k8s.io|resourceclaims/driver default.t1=gpu.example.com", false,
			"given out by the scheduler"},
		{"claims of devices", admin, "t1", "update resource.k8s.io|resourceclaims/status default.t1=web", true, ""},
		{"drivers of the system", root, "t1",
			"arbitrary-node:update resource.k8s.io|resourceclaims/driver default.t1=gpu.example.com", true, "masters"},
		{"shared", mallory, "t1", "list storage.k8s.io|storageclasses", true, "every tenant can read"},
		{"shared by name", mallory, "t1", "get scheduling.k8s.io|priorityclasses system-node-critical", true, ""},
		{"shared, in another space", mallory, "t2", "list storage.k8s.io|storageclasses", false, "cannot reach"},
		{"shared, written", admin, "t1", "create storage.k8s.io|storageclasses", false,
			"made by the administrators of the cluster"},
		{"shared, all deleted", admin, "t1", "deletecollection node.k8s.io|runtimeclasses", false,
			"can get, list and watch"},
		{"default role, read", admin, "t1", "get rbac.authorization.k8s.io|clusterroles view", true, ""},
		{"default role, bound", admin, "t1", "bind rbac.authorization.k8s.io|clusterroles view", true, ""},
		{"default role, written", masters, "t1", "update rbac.authorization.k8s.io|clusterroles cluster-admin", false,
			"the same in all spaces"},
		{"default role, escalated", masters, "t1", "escalate rbac.authorization.k8s.io|clusterroles system:basic-user",
			false, "the same in all spaces"},

		{"everybody: who am I", mallory, "t1", "create authentication.k8s.io|selfsubjectreviews", true,
			"system:basic-user"},
		{"everybody: what may I", mallory, "t1", "create authorization.k8s.io|selfsubjectaccessreviews", true, ""},
		{"not everybody: what may others", mallory, "t1",
			"create authorization.k8s.io|subjectaccessreviews", false, ""},
		{"everybody: discovery", mallory, "t1", "get /apis/apps/v1", true, "system:discovery"},
		{"everybody: OpenAPI", mallory, "t1", "get /openapi/v3", true, ""},
		{"everybody: version", mallory, "t1", "get /version", true, ""},
		{"everybody: health", mallory, "t1", "get /readyz", true, ""},
		{"nobody: discovery elsewhere", mallory, "t2", "get /apis", false, "cannot reach"},
		{"nobody: checks of the cluster", admin, "t1", "get /readyz/etcd", false, "belongs to the cluster"},
		{"nobody: metrics", admin, "t1", "get /metrics", false, "belongs to the cluster"},
		{"the list of paths", admin, "t1", "get /", true, ""},
		{"the list of paths by role", mallory, "t1", "get /", false, ""},
		{"nobody: logs", admin, "t1", "get /logs/kube-apiserver.log", false, "belongs to the cluster"},
		{"nobody: profiles", admin, "t1", "get /debug/pprof/heap", false, "belongs to the cluster"},
		{"allowed by role only", mallory, "t1", "post /apis", false, ""},

		{"impersonates a user", lead, "t1", "impersonate users bob", true, ""},
		{"impersonates another user", lead, "t1", "impersonate users root", false, ""},
		{"impersonates a group", lead, "t1", "impersonate groups devs", true, ""},
		{"impersonates a group of accounts", lead, "t1",
			"impersonate groups system:serviceaccounts:default.t1", true, ""},
		{"impersonates accounts of another", admin, "t1", "impersonate groups system:serviceaccounts:default.t2",
			false, "other spaces"},
		{"impersonates an account", lead, "t1", "impersonate serviceaccounts default.t1=web", true, ""},
		{"impersonates an account of another", admin, "t1", "impersonate serviceaccounts default.t2=web",
			false, "other spaces"},
		{"names his tenant", mallory, "t1", "impersonate authentication.k8s.io|userextras/a4s.io/tenant t1", true, ""},
		{"names another tenant", admin, "t1", "impersonate authentication.k8s.io|userextras/a4s.io/tenant t2",
			false, "nobody else"},
		{"names the system", masters, "t1", "impersonate authentication.k8s.io|userextras/a4s.io/tenant system",
			false, "nobody else"},
		{"other extras by role", lead, "t1", "impersonate authentication.k8s.io|userextras/scopes x", false, ""},
		{"constrained, user", lead, "t1", "impersonate:user-info authentication.k8s.io|users bob", true, ""},
		{"constrained, masters", masters, "t1", "impersonate:user-info authentication.k8s.io|groups system:masters.t1",
			false, "cannot be taken on"},
		{"constrained, all groups at once", masters, "t1", "impersonate:user-info authentication.k8s.io|groups *",
			false, "cannot be taken on"},
		{"constrained, a group", masters, "t1", "impersonate:user-info authentication.k8s.io|groups devs", true, ""},
		{"masters by the old form", masters, "t1", "impersonate groups system:masters.t1", true, ""},
		{"constrained, tenant", lead, "t1",
			"impersonate:user-info authentication.k8s.io|userextras/a4s.io/tenant t1", true, ""},
		{"constrained, another tenant", lead, "t1",
			"impersonate:user-info authentication.k8s.io|userextras/a4s.io/tenant t2", false, ""},
		{"constrained, on pods", lead, "t1", "impersonate-on:user-info:get pods default.t1=web", true, ""},
		{"constrained, on shared", lead, "t1",
			"impersonate-on:user-info:get storage.k8s.io|storageclasses fast", true, ""},
		{"constrained, on shared without role", mallory, "t1",
			"impersonate-on:user-info:get storage.k8s.io|storageclasses fast", false, ""},
		{"constrained, on nodes", admin, "t1", "impersonate-on:user-info:update nodes n1", false, "nodes belong"},

		{"system user, cluster", sysop, "", "list nodes", true, ""},
		{"system user, space", sysop, "t1", "list pods default.t1=", true, `ClusterRoleBinding "pod-reader"`},
		{"system user, another space", sysop, "t2", "get pods default.t2=web", true, ""},
		{"system user, bound by tenants only", sysop, "", "list secrets", false, ""},
		{"system user, bound in a namespace of a tenant", sysop, "t1", "create pods default.t1=", false, ""},
		{"system group, bound by tenants only", in("", "node", "system:bootstrappers"), "t1",
			"list secrets default.t1=", false, ""},
		{"system masters", root, "t1", "delete persistentvolumes pv1.t1.tenant", true, "masters"},
		{"system masters, cluster", root, "", "get /metrics", true, "masters"},
		{"system user names a tenant", root, "t1",
			"impersonate authentication.k8s.io|userextras/a4s.io/tenant t1", true, "masters"},
		{"system user names a tenant without role", sysop, "t1",
			"impersonate authentication.k8s.io|userextras/a4s.io/tenant t1", false, ""},
		{"certificate of a tenant at a kubelet", &user.DefaultInfo{Name: "sysop", Groups: []string{"tenant:t1"}}, "",
			"list nodes", false, "the API server only"},
		{"old certificate of a tenant at a kubelet",
			&user.DefaultInfo{Name: "t1:x", Groups: []string{user.SystemPrivilegedGroup},
				Extra: map[string][]string{user.CredentialIDKey: {"X509SHA256=00"}}},
			"", "get nodes/proxy n1", false, "the API server only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			if c.space != "" {
				ctx = space.WithTenant(ctx, c.space)
			}
			if c.user != nil {
				ctx = request.WithUser(ctx, c.user)
			}
			decision, reason, err := a.Authorize(ctx, want(c.user, c.ask))
			reason = fmt.Sprint(reason, err)
			if (decision == authorizer.DecisionAllow) != c.allowed || !strings.Contains(reason, c.reason) {
				t.Errorf("%s: got %v: %s", c.ask, decision, reason)
			}
		})
	}
}

// What is asked about somebody else than who sent the request.
func TestQuestions(t *testing.T) {
	a := wrap(t, authorizer.AuthorizerFunc(upstream), Options{Roles: listers(t, objects()...), SystemRBAC: true})
	alice, root := in("t1", "alice"), in("", "root", user.SystemPrivilegedGroup)
	review := &request.RequestInfo{IsResourceRequest: true, APIGroup: "authorization.k8s.io",
		Resource: "subjectaccessreviews", Verb: "create"}
	for _, c := range []struct {
		name    string
		asker   user.Info
		space   string
		about   user.Info
		ask     string
		allowed bool
	}{
		{"system about a tenant's user, no space", root, "", alice, "get pods default.t1=web-0", true},
		{"system about a tenant's user, no space, refused", root, "", alice, "get pods default.t1=web-1", false},
		{"system about a tenant's user, nodes", root, "", in("t1", "admin"), "get nodes/proxy n1", false},
		{"system about a tenant's user, his space", root, "t1", alice, "get pods default.t1=web-0", true},
		{"system about a tenant's user, another space", root, "t2", alice, "get pods default.t1=web-0", false},
		{"tenant about his own", alice, "t1", in("t1", "admin"), "list secrets", true},
		{"tenant in native words", alice, "t1", alice, "get persistentvolumes pv1", true},
		{"tenant in native words, refused", alice, "t1", alice, "get persistentvolumes pv2", false},
		{"tenant about another's", alice, "t1", in("t2", "admin"), "list secrets", false},
		{"tenant about the system's", alice, "t1", in("", "sysop"), "list nodes", false},
		{"tenant about masters of the system", alice, "t1", root, "list nodes", false},
		{"tenant without a space", alice, "", in("t1", "admin"), "list secrets", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := request.WithRequestInfo(request.WithUser(t.Context(), c.asker), review)
			if c.space != "" {
				ctx = space.WithTenant(ctx, c.space)
			}
			decision, reason, err := a.Authorize(ctx, want(c.about, c.ask))
			if (decision == authorizer.DecisionAllow) != c.allowed {
				t.Errorf("got %v: %s, %v", decision, reason, err)
			}
		})
	}
}

// What is asked about the parameter of an admission policy: its binding names
// it natively, whatever else is asked for the same request does not.
func TestParameters(t *testing.T) {
	a := wrap(t, authorizer.AuthorizerFunc(upstream), Options{Roles: listers(t, objects()...), SystemRBAC: true})
	bind := func(resource string) *request.RequestInfo {
		return &request.RequestInfo{IsResourceRequest: true, APIGroup: "admissionregistration.k8s.io",
			Resource: resource, Verb: "create"}
	}
	for _, c := range []struct {
		name    string
		info    *request.RequestInfo
		ask     string
		allowed bool
	}{
		{"of a binding", bind("validatingadmissionpolicybindings"), "get persistentvolumes pv1", true},
		{"of a binding, refused", bind("mutatingadmissionpolicybindings"), "get persistentvolumes pv2", false},
		{"of a binding, of another tenant", bind("validatingadmissionpolicybindings"),
			"get persistentvolumes pv1.t2.tenant", false},
		{"not of a binding", bind("validatingadmissionpolicies"), "get persistentvolumes pv1", false},
		{"of another request", &request.RequestInfo{IsResourceRequest: true, Resource: "persistentvolumes",
			Verb: "get"}, "get persistentvolumes pv1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			alice := in("t1", "alice")
			ctx := space.WithTenant(request.WithRequestInfo(request.WithUser(t.Context(), alice), c.info), "t1")
			decision, reason, err := a.Authorize(ctx, want(alice, c.ask))
			if (decision == authorizer.DecisionAllow) != c.allowed {
				t.Errorf("got %v: %s, %v", decision, reason, err)
			}
		})
	}
}
