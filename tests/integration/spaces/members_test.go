package spaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// bind gives somebody a ClusterRole in all of a space.
func (p *plane) bind(t *testing.T, tenant, user, role string) {
	t.Helper()
	const group = "rbac.authorization.k8s.io"
	code, body := do(t, p.Admin, http.MethodPost, "/tenants/"+tenant+"/apis/"+group+"/v1/clusterrolebindings",
		`{"metadata":{"name":"`+strings.ReplaceAll(user, ":", "-")+`"},`+
			`"roleRef":{"apiGroup":"`+group+`","kind":"ClusterRole","name":"`+role+`"},`+
			`"subjects":[{"apiGroup":"`+group+`","kind":"User","name":"`+user+`"}]}`, nil)
	if code != http.StatusCreated && code != http.StatusConflict {
		t.Fatalf("binding %s in %s: %d %s", user, tenant, code, body)
	}
}

// bearer is a client with a token.
func (p *plane) bearer(token string) *rest.Config {
	cfg := rest.AnonymousClientConfig(p.Admin)
	cfg.BearerToken, cfg.QPS = token, -1
	return cfg
}

// TestMembersOfSeveralTenants: somebody who logs in as a member of two tenants is in each space the
// user whom RBAC of that space knows, and in no other space anybody.
func TestMembersOfSeveralTenants(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	of, log := startProvider(t), filepath.Join(t.TempDir(), "audit.log")
	p := start(t, func(cfg *config.Server) {
		of.configure(cfg)
		cfg.AuditLogPath, cfg.TenantGroups = log, []string{"oidc:staff=b,c"}
	})
	for _, name := range []string{"a", "b", "c"} {
		p.bareTenant(t, name)
	}
	p.bind(t, "a", "oidc:ann", "cluster-admin")
	p.bind(t, "b", "oidc:ann", "view")
	token := of.token(t, map[string]any{"sub": "ann", "tenant": []string{"b", "a"}})
	ann := p.bearer(token)
	const maps, whoami = "/api/v1/namespaces/default/configmaps", "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	const reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
	check := func(
		what string, cfg *rest.Config, method, path, body string, code int, says string, header ...string,
	) string {
		t.Helper()
		got, answer := do(t, cfg, method, path, body, header)
		if got != code || !strings.Contains(answer, says) {
			t.Errorf("%s: %s %s: %d %.600s, want %d %s", what, method, path, got, answer, code, says)
		}
		return answer
	}
	for _, path := range []string{"/tenants/a/api/v1/secrets", "/tenants/b/api/v1/pods"} {
		eventually(t, "her role is known: "+path, func(context.Context) (bool, error) {
			code, _ := get(t, ann, path)
			return code == http.StatusOK, nil
		})
	}
	const object = `{"metadata":{"name":"members1"}}`
	check("her rights in a", ann, "POST", "/tenants/a"+maps, object, 201, `"tenant":"a"`)
	check("the other form of path", ann, "GET", "/api/v1/tenants/a/namespaces/default/configmaps/members1", "", 200,
		"members1")
	check("her rights of a in b", ann, "POST", "/tenants/b"+maps, object, 403, "oidc:ann")
	check("what is of a in b", ann, "GET", "/tenants/b"+maps+"/members1", "", 404, "members1")
	check("secrets, which view does not show", ann, "GET", "/tenants/b/api/v1/secrets", "", 403, "oidc:ann")
	for _, path := range []string{"/api", "/apis", "/version", maps, "/api/v1/tenants", "/api/v1/tenants/a"} {
		check("a short path", ann, "GET", path, "", 400, "(a, b)")
	}

	// Where she is no member she gets the answer that other users of a tenant get.
	same := p.user(t, "oidc:ann", []string{"tenant:a"}, nil)
	for _, tenant := range []string{"c", "nobody", "system", "all", "A", "a,b"} {
		for _, path := range []string{maps, "/api", "/version", "/api/v1/nodes"} {
			path = "/tenants/" + tenant + path
			code, want := get(t, same, path)
			if code < http.StatusBadRequest {
				t.Errorf("%s shows something to a user of a: %d %.300s", path, code, want)
			}
			check("no member", ann, "GET", path, "", code, want)
		}
	}

	// In a space she is of that space, and nothing shows the others.
	for _, c := range []struct{ tenant, other string }{{"a", "b"}, {"b", "a"}} {
		var me authenticationv1.SelfSubjectReview
		answer := check("who she is", ann, "POST", "/tenants/"+c.tenant+whoami, "{}", 201, `"username":"oidc:ann"`)
		if err := json.Unmarshal([]byte(answer), &me); err != nil {
			t.Fatal(err)
		}
		for key, values := range me.Status.UserInfo.Extra {
			if slices.Contains(values, c.other) {
				t.Errorf("in %s her attribute %s is %q", c.tenant, key, values)
			}
		}
	}
	const as, extra = "Impersonate-User: ", "Impersonate-Extra-A4s.io%2ftenant: "
	check("in place of another of a", ann, "POST", "/tenants/a"+whoami, "{}", 201, `"username":"bob"`, as+"bob")
	check("of b, in a", ann, "POST", "/tenants/a"+whoami, "{}", 403, "another tenant", as+"bob", extra+"b")
	check("an account of b, in a", ann, "POST", "/tenants/a"+whoami, "{}", 403, "another tenant",
		as+"system:serviceaccount:default.b:default")
	check("on a short path", ann, "POST", whoami, "{}", 400, "(a, b)", as+"bob", extra+"a")
	two := rest.CopyConfig(p.Admin)
	two.Impersonate = rest.ImpersonationConfig{UserName: "bob",
		Extra: map[string][]string{"a4s.io/tenant": {"a", "b"}}}
	check("of two tenants", two, "GET", "/tenants/a"+maps, "", 403, "another tenant")
	check("of two tenants, on a short path", two, "GET", maps, "", 403, "another tenant")

	// Whoever asks about her token learns of the space of their own alone.
	review := `{"spec":{"token":"` + token + `"}}`
	check("a review in a", p.Admin, "POST", "/tenants/a"+reviews, review, 201, `"authenticated":true`)
	check("a review in b", p.Admin, "POST", "/tenants/b"+reviews, review, 201, `"authenticated":true`)
	answer := check("a review in c", p.Admin, "POST", "/tenants/c"+reviews, review, 201, "invalid bearer token")
	if strings.Contains(answer, "oidc:ann") {
		t.Errorf("a review in c: %s", answer)
	}
	check("a review of the system", p.Admin, "POST", "/tenants/system"+reviews, review, 201, "invalid bearer token")
	answer = check("a review of the cluster", p.Admin, "POST", reviews, review, 201, "(a, b)")
	if strings.Contains(answer, `"authenticated":true`) {
		t.Errorf("a review of the cluster: %s", answer)
	}

	// What is no list of tenants is refused at once, with the reason.
	for says, tenants := range map[string][]string{
		"stands beside": {"a", "system"}, "names \\\"a\\\" twice": {"a", "a"}, "invalid name": {"a", "B"},
	} {
		cfg := p.bearer(of.token(t, map[string]any{"sub": "ann", "tenant": tenants}))
		for _, at := range []string{"", "/tenants/a", "/tenants/system"} {
			check("no list of tenants", cfg, "GET", at+maps, "", 401, says)
		}
	}
	testGroupsOfMembers(t, p, of)
	testAuditOfMembers(t, p, ann, log)
	testWatchesOfMembers(t, p, of, ann)
}

// testGroupsOfMembers: a group that the servers map to tenants makes somebody a member of these as well, and of no
// other; a group that they say themselves does not.
func testGroupsOfMembers(t *testing.T, p *plane, of *provider) {
	t.Helper()
	for _, tenant := range []string{"a", "b", "c"} {
		p.bind(t, tenant, "oidc:eve", "view")
	}
	const pods = "/api/v1/namespaces/default/pods"
	eve := p.bearer(of.token(t, map[string]any{"sub": "eve", "tenant": "a", "groups": []string{"staff"}}))
	eventually(t, "her role is known", func(context.Context) (bool, error) {
		code, _ := get(t, eve, "/tenants/c"+pods)
		return code == http.StatusOK, nil
	})
	for at, tenant := range map[string]string{"": "a", "/tenants/a": "a", "/tenants/b": "b", "/tenants/c": "c"} {
		eventually(t, "she is a user of "+tenant+" at "+at, func(context.Context) (bool, error) {
			code, answer := get(t, eve, at+"/api/v1/namespaces/default")
			return code == http.StatusOK && strings.Contains(answer, `"tenant":"`+tenant+`"`), nil
		})
	}
	for _, at := range []string{"/tenants/system", "/tenants/nobody"} {
		if code, answer := get(t, eve, at+pods); code != http.StatusForbidden {
			t.Errorf("at %s: %d %s", at, code, answer)
		}
	}
	// A group is as the API server knows it, and comes from whoever says who they are.
	for what, cfg := range map[string]*rest.Config{
		"without the group": p.bearer(of.token(t, map[string]any{"sub": "eve", "tenant": "a"})),
		"another": p.bearer(of.token(t, map[string]any{"sub": "eve", "tenant": "a",
			"groups": []string{"oidc:staff"}})),
		"a certificate": p.user(t, "oidc:eve", []string{"tenant:a"}, []string{"oidc:staff"}),
	} {
		if code, answer := get(t, cfg, "/tenants/c"+pods); code != http.StatusForbidden {
			t.Errorf("%s: %d %s", what, code, answer)
		}
	}
	as := rest.CopyConfig(p.bearer(of.token(t, map[string]any{"sub": "ann", "tenant": "a"})))
	as.Impersonate = rest.ImpersonationConfig{UserName: "oidc:eve", Groups: []string{"oidc:staff"}}
	if code, answer := get(t, as, "/tenants/c"+pods); code != http.StatusForbidden {
		t.Errorf("by impersonation: %d %s", code, answer)
	}
}

// testAuditOfMembers: a request is recorded as one of the chosen tenant, and one that chooses none
// with all.
func testAuditOfMembers(t *testing.T, p *plane, ann *rest.Config, log string) {
	for _, c := range []struct {
		path    string
		code    int32
		tenants []string
		space   string
	}{
		{"/tenants/b/api/v1/namespaces/default/configmaps/members2", 404, []string{"b"}, "b"},
		{"/tenants/c/api/v1/namespaces/default/configmaps/members3", 403, []string{"a"}, "c"},
		{"/api/v1/namespaces/default/configmaps/members4", 400, []string{"a", "b"}, ""},
	} {
		get(t, ann, c.path)
		mark := c.path[strings.Index(c.path, "members"):]
		eventually(t, "the audit event of "+c.path, func(context.Context) (bool, error) {
			events, err := findEvents(log, mark)
			if err != nil || len(events) == 0 {
				return false, err
			}
			e := events[0]
			if len(events) != 1 || e.ResponseStatus.Code != c.code || e.User.Username != "oidc:ann" ||
				!slices.Equal(e.User.Extra["a4s.io/tenant"], c.tenants) || e.Annotations["a4s.io/tenant"] != c.space {
				t.Errorf("%s: audited as %+v", c.path, events)
			}
			return true, nil
		})
	}
}

// testWatchesOfMembers: a watch ends with the tenant that it was opened in, and with no other; the next
// token that does not name a tenant gets nothing there.
func testWatchesOfMembers(t *testing.T, p *plane, of *provider, ann *rest.Config) {
	left := p.bearer(of.token(t, map[string]any{"sub": "ann", "tenant": []string{"b"}}))
	if code, body := get(t, left, "/tenants/a/api/v1/namespaces"); code != http.StatusForbidden {
		t.Errorf("who is no member of a any more: %d %s", code, body)
	}
	code, body := get(t, left, "/api/v1/namespaces")
	if code != http.StatusOK || !strings.Contains(body, `"tenant":"b"`) {
		t.Errorf("who is a member of b alone: %d %s", code, body)
	}
	open := func(tenant string) <-chan struct{} {
		cfg := rest.CopyConfig(ann)
		cfg.Host += "/tenants/" + tenant
		w, err := p.as(t, tenant, cfg).client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range w.ResultChan() { //nolint:revive // until it ends
			}
		}()
		return ended
	}
	inA, inB := open("a"), open("b")
	if code, body := do(t, p.Admin, http.MethodDelete, "/api/v1/tenants/a", "", nil); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	select {
	case <-inA:
	case <-t.Context().Done():
	}
	eventually(t, "the tenant to be gone", func(context.Context) (bool, error) {
		code, _ := get(t, p.Admin, "/api/v1/tenants/a")
		return code == http.StatusNotFound, nil
	})
	// The edge knows by a watch which tenants there are.
	eventually(t, "a tenant that is gone not to be found", func(context.Context) (bool, error) {
		code, body, err := try(t, ann, http.MethodGet, "/tenants/a/api/v1/namespaces", "", nil)
		if err != nil {
			return false, nil
		}
		if code < http.StatusBadRequest {
			return false, fmt.Errorf("%d %s", code, body)
		}
		return code == http.StatusNotFound, nil
	})
	select {
	case <-inB:
		t.Error("the watch in b ended with a")
	default:
	}
	// Who is made anew by this name has other members' bindings, and none of hers.
	planes.CreateTenant(t, p.Admin, "a")
	eventually(t, "the new tenant to refuse her", func(context.Context) (bool, error) {
		code, _ := get(t, ann, "/tenants/a/api/v1/namespaces/default/secrets")
		return code == http.StatusForbidden, nil
	})
}
