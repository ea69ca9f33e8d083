package spaces_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/tests/nstest"
)

// accountOf is a config for the service account default of a space.
func accountOf(t *testing.T, p *plane, s *space) *space {
	t.Helper()
	var token string
	eventually(t, "the service account of "+s.name, func(ctx context.Context) (bool, error) {
		r, err := s.client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default",
			&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			return false, nil
		}
		token = r.Status.Token
		return true, nil
	})
	cfg := rest.AnonymousClientConfig(s.config)
	cfg.BearerToken = token
	return p.as(t, s.name, cfg)
}

// TestReviewsSayWhatRequestsAreAnswered: for every path and verb, in every space, a
// review says what becomes of the request.
func TestReviewsSayWhatRequestsAreAnswered(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, system := p.tenant(t, "a"), p.as(t, "system", p.Admin)
	p.tenant(t, "b")
	viewer := p.as(t, "a", p.user(t, "viewer", []string{"tenant:a"}, nil))
	if _, err := a.client.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "viewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "viewer"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	users := map[string]*space{
		"the administrator of a tenant": a, "who sees a namespace of it": viewer,
		"a service account of it":            accountOf(t, p, a),
		"a user without roles of it":         p.as(t, "a", p.user(t, "nobody", []string{"tenant:a"}, nil)),
		"a service account of the system":    accountOf(t, p, system),
		"a user of the system without roles": p.as(t, "system", p.user(t, "someone", nil, nil)),
	}
	eventually(t, "the role of the viewer", func(context.Context) (bool, error) {
		code, _ := get(t, viewer.config, "/api/v1/namespaces/default/pods")
		return code == http.StatusOK, nil
	})
	answers := map[bool]int{}
	compare := func(who string, s *space, spec authorizationv1.SelfSubjectAccessReviewSpec, method, path string) {
		t.Helper()
		review, err := s.client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		code, body := do(t, s.config, method, path, "", nil)
		// Other refusals are of the guards of objects.
		why := review.Status.Reason
		refused := code == http.StatusForbidden && (method == http.MethodHead || strings.Contains(body, "cannot ") ||
			why != "" && strings.Contains(body, why))
		answers[!refused]++
		if review.Status.Allowed == refused || code == http.StatusUnauthorized {
			t.Errorf("%s, %s %s: the review says %t (%s), the answer is %d %.300s", who, method,
				path, review.Status.Allowed, why, code, body)
		}
	}
	for who, s := range users {
		for _, path := range append(kinds.OpenPaths(), "/api/", "/apis/", "/apis/apps", "/apis/apps/v1", "/api/v1",
			"/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/healthz/etcd", "/readyz/ping", "/metrics",
			"/metrics/slis", "/logs/", "/debug/pprof/", "/nothing", "/configz", "/statusz", "/flagz") {
			if strings.HasSuffix(path, "*") {
				continue
			}
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
				http.MethodPatch, http.MethodDelete} {
				compare(who, s, authorizationv1.SelfSubjectAccessReviewSpec{
					NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path,
						Verb: strings.ToLower(method)}}, method, path)
			}
		}
	}
	for _, path := range []string{"/.well-known/openid-configuration", "/openid/v1/jwks"} {
		for _, who := range []string{"a service account of it", "a service account of the system"} {
			if code, body := get(t, users[who].config, path); code != http.StatusOK ||
				!strings.Contains(body, "keys") && !strings.Contains(body, "issuer") {
				t.Errorf("%s gets %s: %d %s", who, path, code, body)
			}
		}
	}
	served := map[[2]string]string{} // versions by group and resource
	_, lists, err := p.admin.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		for _, r := range list.APIResources {
			group, version, found := strings.Cut(list.GroupVersion, "/")
			if !found {
				group, version = "", group
			}
			served[[2]string{group, r.Name}] = version
		}
	}
	for _, k := range kinds.Rows() {
		version, ok := served[[2]string{k.Group, k.Resource}]
		if !ok || kinds.IsReview(k.Group) {
			continue
		}
		collection, namespace := "/apis/"+k.Group+"/"+version+"/", ""
		if k.Group == "" {
			collection = "/api/v1/"
		}
		if k.Namespaced {
			namespace = "default"
			collection += "namespaces/default/"
		}
		collection += k.Resource
		for verb, method := range map[string]string{"list": http.MethodGet, "get": http.MethodGet,
			"create": http.MethodPost, "update": http.MethodPut, "delete": http.MethodDelete,
			"deletecollection": http.MethodDelete} {
			for _, name := range []string{"", "view", "web-x", "x.b.tenant", "x.a.tenant", "default.b"} {
				path := collection
				whole := verb == "list" || verb == "create" || verb == "deletecollection"
				if whole != (name == "") {
					continue
				}
				if name != "" {
					path += "/" + name
				}
				for _, who := range []string{"the administrator of a tenant", "who sees a namespace of it"} {
					compare(who, users[who], authorizationv1.SelfSubjectAccessReviewSpec{
						ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: k.Group,
							Resource: k.Resource, Version: version, Namespace: namespace, Name: name}},
						method, path+"?dryRun=All&labelSelector=none%3Dof-all")
				}
			}
		}
	}
	if answers[true] < 300 || answers[false] < 300 {
		t.Errorf("this tests too little: %v", answers)
	}
}
