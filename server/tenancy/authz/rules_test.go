package authz

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

type noRules struct{}

func (noRules) RulesFor(
	context.Context, user.Info, string,
) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return nil, nil, false, nil
}

func TestRulesFor(t *testing.T) {
	objs := append(objects(),
		nsRole("default.t1", "mixed", rule("get", "apps", "deployments,daemonsets"),
			rule("create", "", "pods/binding,nodes")),
		binding("default.t1", "Role", "mixed", "User:alice"),
		clusterRole("paths.t1.tenant",
			rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics", "/livez", "/logs/*"}}),
		clusterBinding("paths.t1.tenant", "paths.t1.tenant", "User:alice"),
	)
	r := WrapRules(noRules{}, Options{Roles: listers(t, objs...), SystemRBAC: true})
	list := func(u user.Info, tenant, namespace string) (string, error) {
		ctx := request.WithUser(t.Context(), u)
		if tenant != "" {
			ctx = space.WithTenant(ctx, tenant)
		}
		resources, paths, incomplete, err := r.RulesFor(ctx, u, namespace)
		if incomplete {
			t.Error("incomplete")
		}
		var out []string
		for _, r := range resources {
			out = append(out, fmt.Sprint(r.GetVerbs(), r.GetAPIGroups(), r.GetResources(), r.GetResourceNames()))
		}
		for _, p := range paths {
			out = append(out, fmt.Sprint(p.GetVerbs(), p.GetNonResourceURLs()))
		}
		return strings.Join(out, "\n"), err
	}
	for name, c := range map[string]struct {
		user              user.Info
		tenant, namespace string
		has, hasNot       []string
		refused           bool
	}{
		"of a tenant": {
			in("t1", "alice"), "t1", "default.t1",
			[]string{"[get list] [] [pods] [web-0]", "[get] [] [persistentvolumes] [pv1]",
				"[get] [apps] [deployments] []", "[selfsubjectreviews]", "[/api /api/*",
				"[get list watch] [storage.k8s.io] [csidrivers storageclasses", "[get] [/livez]"},
			[]string{"daemonsets", "binding", "nodes", "metrics", "logs", "t1"}, false,
		},
		"of a tenant's administrator": {
			in("t1", "admin"), "t1", "kube-system.t1",
			[]string{"[*] [*] [*] []", "[*] [/ /api /api/* /apis"}, []string{"metrics"}, false,
		},
		"of another tenant's namespace": {in("t1", "admin"), "t1", "default.t2", nil, nil, true},
		"in another space":              {in("t1", "admin"), "t2", "default.t2", nil, nil, true},
		"of the system": {in("", "sysop"), "", "default.t1", []string{"[get list] [] [pods nodes] []"},
			[]string{"[*]", "web-0"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := list(c.user, c.tenant, c.namespace)
			if (err != nil) != c.refused || (c.refused && got != "") {
				t.Fatalf("got %v and %s", err, got)
			}
			for _, s := range c.has {
				if !strings.Contains(got, s) {
					t.Errorf("%q is missing in\n%s", s, got)
				}
			}
			for _, s := range c.hasNot {
				if strings.Contains(got, s) {
					t.Errorf("%q is in\n%s", s, got)
				}
			}
		})
	}
}

// Whoever a tenant's user takes on, even without the tenant, stays confined.
func TestImpersonatedSystemUser(t *testing.T) {
	a := wrap(t, authorizer.AuthorizerFunc(upstream), Options{Roles: listers(t, objects()...), SystemRBAC: true})
	early := authn.Wrap(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: in("t1", "admin")}, true, nil
	}), authn.Options{})
	req, _, _, err := authn.Early(early, &http.Request{Header: http.Header{}}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range []user.Info{
		&user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}},
		in("", "root", user.SystemPrivilegedGroup),
		in("t2", "admin"),
	} {
		ctx := request.WithUser(space.WithTenant(req.Context(), "t1"), u)
		decision, reason, err := a.Authorize(ctx, want(u, "list pods"))
		if decision != authorizer.DecisionDeny || err != nil {
			t.Errorf("%s: got %v: %s, %v", u.GetName(), decision, reason, err)
		}
	}
}

func TestInnerRBACIsLeftAlone(t *testing.T) {
	a := wrap(t, authorizer.AuthorizerFunc(upstream), Options{Roles: listers(t, objects()...)})
	sysop := in("", "sysop")
	if decision, _, err := a.Authorize(t.Context(), want(sysop, "list nodes")); decision == authorizer.DecisionAllow ||
		err != nil {
		t.Errorf("roles of the system count although the cluster has no RBAC: %v, %v", decision, err)
	}
}

// An authorization must not look at the bindings of other tenants.
func TestBindingsOfOneTenant(t *testing.T) {
	var objs []runtime.Object
	for i := range 50 {
		objs = append(objs, clusterBinding(fmt.Sprintf("b.t%d.tenant", i), "view", "User:x"))
	}
	// Names of the system that look like a tenant's to a careless reader.
	objs = append(objs, clusterBinding("b.t1", "view", "User:x"), clusterBinding("t1.tenants", "view", "User:x"))
	l := listers(t, objs...)
	for tenant, want := range map[string][]string{
		"t1": {"b.t1.tenant", "cluster-admin", "system:basic-user", "system:cluster-trust-bundle-discovery",
			"system:discovery", "system:public-info-viewer", "system:service-account-issuer-discovery"},
		"new": {"cluster-admin", "system:basic-user", "system:cluster-trust-bundle-discovery",
			"system:discovery", "system:public-info-viewer", "system:service-account-issuer-discovery"},
		"system": {"b.t1", "t1.tenants"},
	} {
		got, err := l.ListClusterRoleBindings(space.WithTenant(t.Context(), tenant))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, b := range got {
			names = append(names, b.Name)
		}
		if slices.Sort(names); !slices.Equal(names, want) {
			t.Errorf("%s: got %q, want %q", tenant, names, want)
		}
	}
}

func TestListersFollowChanges(t *testing.T) {
	client := fake.NewClientset(clusterRole("cluster-admin", rule("*", "*", "*")))
	f := informers.NewSharedInformerFactory(client, 0)
	l, err := NewListers(f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewListers(f); err == nil {
		t.Error("the index was added twice")
	}
	a := wrap(t, authorizer.AuthorizerFunc(upstream), Options{Roles: l})
	ctx, admin := space.WithTenant(t.Context(), "t1"), in("t1", "admin")
	if d, _, _ := a.Authorize(ctx, want(admin, "list pods")); d == authorizer.DecisionAllow {
		t.Error("allowed before anything is known")
	}
	synced := f.Rbac().V1().ClusterRoleBindings().Informer()
	ctx, stop := context.WithCancel(ctx)
	f.Start(ctx.Done())
	defer f.Shutdown()
	defer stop()
	f.WaitForCacheSync(ctx.Done())
	seen := make(chan struct{}, 1)
	if _, err := synced.AddEventHandler(notify(seen)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx,
		clusterBinding("a.t1.tenant", "cluster-admin", "User:admin"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	<-seen
	if d, reason, err := a.Authorize(ctx, want(admin, "list pods")); d != authorizer.DecisionAllow {
		t.Errorf("got %v: %s, %v", d, reason, err)
	}
}

type notify chan struct{}

func (n notify) OnAdd(any, bool)   { n <- struct{}{} }
func (n notify) OnUpdate(any, any) {}
func (n notify) OnDelete(any)      {}
