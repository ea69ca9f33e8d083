package edge

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

func TestTenantOfToken(t *testing.T) {
	token := func(claims string) string {
		return "Bearer x." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".y"
	}
	for header, want := range map[string]string{
		token(`{"sub":"system:serviceaccount:default.team-a:web"}`): "team-a",
		token(`{"sub":"system:serviceaccount:kube-system:web"}`):    "system",
		token(`{"sub":"ann"}`): "",
		token(`{"sub":["x"]}`): "",
		token(`not json`):      "",
		"Bearer a.b":           "",
		"Bearer a.%.c":         "",
		"Basic eDp5":           "",
		"":                     "",
	} {
		if got, ok := tenantOfToken(header); got != want || ok != (want != "") {
			t.Errorf("%s: %q", header, got)
		}
	}
}

// TestAbout: which tenant a request of a user of the system is about.
func TestAbout(t *testing.T) {
	admin := &user.DefaultInfo{Name: "system:admin", Groups: []string{"system:masters"}}
	for _, c := range []struct{ method, path, want string }{
		{http.MethodGet, "/api/v1/namespaces/default.team-a/pods/web", "team-a"},
		{http.MethodGet, "/api/v1/namespaces/default.team-a", "team-a"},
		{http.MethodGet, "/api/v1/namespaces/default/pods", ""},
		{http.MethodGet, "/api/v1/persistentvolumes/pv1.team-a.tenant", "team-a"},
		{http.MethodGet, "/tenants/team-a/api/v1/pods", "team-a"},
		{http.MethodGet, "/api/v1/tenants/team-a/pods", "team-a"},
		{http.MethodGet, "/api/v1/tenants/team-a", "team-a"},
		{http.MethodPatch, "/api/v1/tenants/team-a", "team-a"},
		{http.MethodPut, "/api/v1/tenants/team-a/status", "team-a"},
		{http.MethodDelete, "/api/v1/tenants/team-a", ""}, // home decides
		{http.MethodPost, "/api/v1/tenants", ""},
		{http.MethodGet, "/api/v1/tenants/all/pods", ""},
		{http.MethodGet, "/tenants/system/api/v1/pods", ""},
		{http.MethodGet, "/api/v1/nodes/n1", ""},
		{http.MethodGet, "/version", ""},
	} {
		req := httptest.NewRequest(c.method, c.path, nil)
		r := read(req)
		r.identify(admin, req.Header)
		if got := r.about(); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.method, c.path, got, c.want)
		}
	}
	// What works in a partition works with what is there.
	req := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default.team-a/pods", nil)
	for _, u := range []user.Info{
		&user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}},
		&user.DefaultInfo{Name: "system:a4s:partition:main", Groups: []string{"system:a4s:partitions"}},
	} {
		r := read(req)
		r.identify(u, req.Header)
		if got := r.about(); got != "" {
			t.Errorf("%s: %q", u.GetName(), got)
		}
	}
}

// TestTokensOfProvidersGoToTheirTenant: a token that nobody here knows is looked at where the tenant is that the
// path names, whose provider may know it.
func TestTokensOfProvidersGoToTheirTenant(t *testing.T) {
	m := newMemberEdge(t)
	m.Authenticator(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, nil
	}))
	for _, c := range []struct {
		path, token string
		sent        bool
	}{
		{"/tenants/far/api/v1/pods", "Bearer a.b.c", true}, {"/api/v1/tenants/far/pods", "bearer a.b.c", true},
		{"/tenants/far/api/v1/pods", "Bearer a.b", false}, {"/tenants/far/api/v1/pods", "Basic a.b.c", false},
		{"/tenants/far/api/v1/pods", "", false}, {"/tenants/near/api/v1/pods", "Bearer a.b.c", false},
		{"/api/v1/pods", "Bearer a.b.c", false},
	} {
		m.served, m.far.sent = nil, nil
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, nil)
		req.Header.Set("Authorization", c.token)
		m.ServeHTTP(httptest.NewRecorder(), req)
		switch {
		case len(m.far.sent) > 0 != c.sent || (m.served == nil) != c.sent:
			t.Errorf("%s with %q: sent on %v", c.path, c.token, m.far.sent)
		case c.sent && (m.far.sent[0].Partition != "tp2" || m.far.sent[0].User != nil):
			t.Errorf("%s with %q: %+v", c.path, c.token, m.far.sent[0])
		}
	}
}
