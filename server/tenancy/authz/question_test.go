package authz

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// TestDefaultBindingsOfUpstream: what upstream lets groups do that users of tenants
// are in, tenants' users may do, too, and by roles of the same name.
func TestDefaultBindingsOfUpstream(t *testing.T) {
	have := map[string][]string{}
	for _, b := range listers(t).everywhere {
		for _, s := range b.Subjects {
			have[b.RoleRef.Name] = append(have[b.RoleRef.Name], s.Name)
		}
	}
	upstreams := map[string]string{}
	for _, b := range bootstrappolicy.ClusterRoleBindings() {
		upstreams[b.Name] = b.RoleRef.Name
	}
	for role := range have {
		if upstreams[role] != role || !kinds.SharedClusterRole(role) {
			t.Errorf("%s is bound to %q", role, upstreams[role])
		}
	}
	a := wrap(t, authorizer.AuthorizerFunc(upstream), Options{Roles: listers(t, objects()...), SystemRBAC: true})
	account := in("t1", "system:serviceaccount:default.t1:x", "system:serviceaccounts",
		"system:serviceaccounts:default.t1")
	for ask, allowed := range map[string]bool{"get /.well-known/openid-configuration": true,
		"get /.well-known/openid-configuration/": true, "get /openid/v1/jwks": true, "get /openid/v1/jwks/": true,
		"get /version": true, "get /openid/v1": false, "post /openid/v1/jwks": false, "get /metrics": false} {
		ctx := space.WithTenant(request.WithUser(t.Context(), account), "t1")
		decision, reason, err := a.Authorize(ctx, want(account, ask))
		if (decision == authorizer.DecisionAllow) != allowed || err != nil {
			t.Errorf("%s: %v, %s, %v", ask, decision, reason, err)
		}
	}
	if have["system:service-account-issuer-discovery"] == nil || have["system:discovery"] == nil {
		t.Errorf("there are %v", have)
	}
}

// TestReviewsAnswerAsRequests: over all inputs of an authorizer, a review in native
// words says what the request would be answered that the edge makes of the same.
func TestReviewsAnswerAsRequests(t *testing.T) {
	roles := listers(t, append(objects(),
		clusterRole("names.t1.tenant", rule("get", "", "persistentvolumes", "pv1.t2.tenant", "web", "x.t1.tenant"),
			rule("get", rbacv1.GroupName, "clusterroles", "view", "web", "system:odd.t2.tenant"),
			rule("get", "", "namespaces", "default", "default.t2")),
		clusterBinding("names.t1.tenant", "names.t1.tenant", "User:namer"))...)
	a := wrap(t, authorizer.AuthorizerFunc(upstream), Options{Roles: roles, SystemRBAC: true})
	table := kinds.New()
	view := &wire.View{Tenant: "t1", SharedClusterRole: kinds.SharedClusterRole,
		ClusterScoped: func(group, kind string) bool {
			k, ok := table.Kind(group, kind)
			if !ok {
				return kind == "Cluster" // a definition of the test
			}
			return !k.Namespaced && k.Class == kinds.Tenant && !kinds.IsReview(group)
		}}
	review := &request.RequestInfo{IsResourceRequest: true, APIGroup: "authorization.k8s.io",
		Resource: "subjectaccessreviews", Verb: "create"}
	users := []user.Info{in("t1", "admin"), in("t1", "alice"), in("t1", "namer"), in("t1", "lead"), in("t1", "nobody"),
		in("t1", "boss", "system:masters.t1"), in("t1", "system:serviceaccount:default.t1:web",
			"system:serviceaccounts", "system:serviceaccounts:default.t1")}
	said := map[authorizer.Decision]int{}
	compare := func(u user.Info, native, composite authorizer.AttributesRecord) {
		t.Helper()
		native.User, composite.User = u, u
		ctx := space.WithTenant(request.WithUser(t.Context(), u), "t1")
		asked, why, err1 := a.Authorize(request.WithRequestInfo(ctx, review), native)
		done, because, err2 := a.Authorize(ctx, composite)
		said[done]++
		if t.Failed() {
			return // one is enough
		}
		if asked != done || why != because || (err1 == nil) != (err2 == nil) {
			t.Errorf("%s asks %+v: %v, %q, %v; a request: %v, %q, %v", u.GetName(), native, asked, why, err1, done,
				because, err2)
		}
	}
	verbs := []string{"get", "list", "create", "update", "delete", "deletecollection", "bind", "escalate", "*",
		"impersonate", "impersonate:user-info", "impersonate-on:user-info:get"}
	names := []string{"", "*", "web", "web-0", "default", "view", "pv1", "w1", "bob", "devs", "system:masters", "t1",
		"t2", "pv1.t2.tenant", "pv1.t1.tenant", "x.t1.tenant", "default.t1", "default.t2", "system:odd.t2.tenant",
		"system:serviceaccount:default:web", "system:serviceaccount:default.t2:web", "system:serviceaccounts:default",
		"system:serviceaccounts:default.t2"}
	resources := []kinds.Kind{{Group: "example.com", Resource: "widgets", Kind: "Widget", Namespaced: true},
		{Group: "example.com", Resource: "clusters", Kind: "Cluster"}, {Group: "*", Resource: "*"},
		{Resource: "users"}, {Resource: "groups"}, {Group: "authentication.k8s.io", Resource: "users"},
		{Group: "authentication.k8s.io", Resource: "groups"}, {Group: "authentication.k8s.io", Resource: "userextras"}}
	for _, u := range users {
		for _, verb := range verbs {
			for _, k := range append(slices.Clone(resources), kinds.Rows()...) {
				for _, sub := range []string{"", "status", "binding", "proxy", space.Extra} {
					for _, name := range names {
						for _, namespace := range []string{"", "default", "default.t2"} {
							if !k.Namespaced && namespace != "" && k.Resource != "namespaces" {
								continue
							}
							// Whether a definition is of namespaced objects is not known
							// where it is judged. No request has such a name and no namespace.
							if k.Kind == "Widget" && namespace == "" && strings.HasSuffix(name, space.Suffix) {
								continue
							}
							q := authorizer.AttributesRecord{Verb: verb, APIGroup: k.Group, APIVersion: "v1",
								Resource: k.Resource, Subresource: sub, Name: name, ResourceRequest: true,
								Namespace: space.Namespace("t1", namespace)} // as the body of a review has it
							r := q
							r.Name = asSent(t, view, q, k.Kind, namespace)
							compare(u, q, r)
						}
					}
				}
			}
			for _, path := range append(kinds.OpenPaths(), "", "/api/v1/nodes", "/metrics", "/readyz/etcd", "/logs/x",
				"/.well-known/openid-configuration/", "/openid/v1/jwks/x", "/tenants/t2/api", "/partitions/tp2/api") {
				q := authorizer.AttributesRecord{Verb: verb, Path: path}
				compare(u, q, q)
			}
		}
	}
	if said[authorizer.DecisionAllow] < 1000 || said[authorizer.DecisionDeny] < 1000 ||
		said[authorizer.DecisionNoOpinion] < 1000 {
		t.Errorf("this tests too little: %v", maps.Collect(maps.All(said)))
	}
}

// asSent is the name that the edge, and upstream's impersonation behind it, has in a
// request.
func asSent(t *testing.T, view *wire.View, q authorizer.AttributesRecord, kind, namespace string) string {
	t.Helper()
	name, err := q.Name, error(nil)
	switch {
	case name == "*": // upstream asks it, and no request has it
	case impersonates(q) && q.Resource == "users":
		name, err = view.User(wire.In, name)
	case impersonates(q) && q.Resource == "groups":
		name, err = view.Group(wire.In, name)
	case impersonates(q): // what it asks besides has no object
	case kind == "" && namespace == "":
		name, err = view.ClusterName(wire.In, name) // whatever it is
	default:
		name, err = view.Name(wire.In, q.APIGroup, kind, name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestQuestionHasAllFields: what a new version of upstream asks besides is composed,
// or named here.
func TestQuestionHasAllFields(t *testing.T) {
	decided := []string{"User", "Verb", "Namespace", "APIGroup", "APIVersion", "Resource", "Subresource", "Name",
		"ResourceRequest", "Path",
		// Roles do not look at selectors.
		"FieldSelectorRequirements", "FieldSelectorParsingErr", "LabelSelectorRequirements", "LabelSelectorParsingErr"}
	of := reflect.TypeFor[authorizer.AttributesRecord]()
	for i := range of.NumField() {
		if !slices.Contains(decided, of.Field(i).Name) {
			t.Errorf("nobody has decided what becomes of %s", of.Field(i).Name)
		}
	}
}
