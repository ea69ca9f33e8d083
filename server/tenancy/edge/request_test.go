package edge

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
)

// userOf is a user of a tenant.
func userOf(tenant string) user.Info {
	return &user.DefaultInfo{Name: "u", Extra: map[string][]string{space.Extra: {tenant}}}
}

// TestRequestIsIdentified: the tenant of the user is that of the queue and of the
// limits, whomever they impersonate; the space follows who they act as.
func TestRequestIsIdentified(t *testing.T) {
	for _, c := range []struct {
		user, impersonated, path             string
		userTenant, ofTenant, wantSpace, pre string
	}{
		{"t1", "", "/api/v1/pods", "t1", "t1", "t1", ""},
		{"t1", "t2", "/api/v1/pods", "t1", "t1", "t1", ""},
		{"t1", "", "/tenants/t2/api/v1/pods", "t1", "t1", "t2", "/tenants/t2"},
		{"t1", "", "/api/v1/tenants/t2/pods", "t1", "t1", "t2", ""},
		{space.System, "", "/api/v1/pods", space.System, space.System, "", ""},
		{space.System, "t2", "/api/v1/pods", space.System, "t2", "t2", ""},
		{space.System, "t2", "/tenants/t1/api/v1/pods", space.System, "t2", "t1", "/tenants/t1"},
		{space.System, "", "/tenants/all/api/v1/pods", space.System, space.System, space.All, "/tenants/all"},
	} {
		req := httptest.NewRequest(http.MethodGet, c.path, nil)
		if c.impersonated != "" {
			req.Header.Set(authenticationv1.ImpersonateUserHeader, "v")
			req.Header.Set(authenticationv1.ImpersonateUserExtraHeaderPrefix+space.Extra, c.impersonated)
		}
		r := read(req)
		r.identify(userOf(c.user), req.Header)
		if r.userTenant != c.userTenant || r.ofTenant != c.ofTenant || r.space != c.wantSpace || r.prefix() != c.pre {
			t.Errorf("%+v: user of %q, acts as one of %q, space %q, prefix %q", c, r.userTenant, r.ofTenant,
				r.space, r.prefix())
		}
		if r.path != "/api/v1/pods" || r.sent != c.path || r.resource == nil || r.document != nil {
			t.Errorf("%+v: path %q of %q", c, r.path, r.sent)
		}
	}
}

// TestRefusedIsRecordedAsServed: the audit log has one path for a request, whether
// the edge refuses it or the API server answers it.
func TestRefusedIsRecordedAsServed(t *testing.T) {
	e := New(Options{})
	for _, path := range []string{
		"/api/v1/namespaces/default/pods/web", "/api/v1/namespaces/default.t2/pods/web/log",
		"/api/v1/namespaces/default",
		"/api/v1/persistentvolumes/pv1", "/api/v1/watch/namespaces/default/pods",
		"/api/v1/tenants/t1/namespaces/default/pods/",
		"/tenants/t1/apis/rbac.authorization.k8s.io/v1/clusterroles/admin", "/tenants/t1/version",
		"/healthz", "/api/v1/nodes/n1",
	} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			for _, query := range []string{"", "?watch=1", "?fieldSelector=metadata.name%3Dx"} {
				resolved := func() (*http.Request, *request) {
					req := httptest.NewRequest(method, path+query, nil)
					r := read(req)
					r.identify(userOf("t1"), req.Header)
					return req, r
				}
				_, refused := resolved()
				req, served := resolved()
				e.findKind(served)
				reached := ""
				next := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { reached = req.URL.Path })
				if err := e.serveSpace(httptest.NewRecorder(), withPath(req, served.path), next, served); err != nil {
					continue // it is never served
				}
				if got := e.recorded(refused); got != reached {
					t.Errorf("%s %s%s is recorded as %s, and served as %s", method, path, query, got, reached)
				}
			}
		}
	}
}

// TestRequestsAreResolvedOnce: what resolves a request is called where it comes in,
// and nowhere else.
func TestRequestsAreResolvedOnce(t *testing.T) {
	want := map[string][]string{
		"receive":            {"edge.go"},
		"read":               {"request.go"},
		"identify":           {"resolve.go"},
		"splitAddress":       {"bodytenant.go", "request.go"}, // the former reads the selfLink of a body
		"parse":              {"request.go", "request.go"},    // the former is parsePath
		"parsePath":          {"openapi.go"},                  // paths of a document
		"documentOf":         {"request.go"},
		"describe":           {"request.go"},
		"resolve":            {"resolve.go"},
		"find":               {"kind.go"},
		"ImpersonatedTenant": {"resolve.go"},
		"TenantOf":           {"charge.go", "resolve.go"}, // the former is the flow
	}
	got := map[string][]string{}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			called := ""
			switch f := call.Fun.(type) {
			case *ast.Ident:
				called = f.Name
			case *ast.SelectorExpr:
				called = f.Sel.Name
			}
			if _, ok := want[called]; ok {
				got[called] = append(got[called], name)
			}
			return true
		})
	}
	for _, f := range slices.Sorted(maps.Keys(want)) {
		if !slices.Equal(got[f], want[f]) {
			t.Errorf("%s is called in %v, want %v", f, got[f], want[f])
		}
	}
}
