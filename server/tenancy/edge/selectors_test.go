package edge

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
)

// TestSelectorsAreBounded: what a selector asks of the server is bounded before a role
// of the tenant is looked at.
func TestSelectorsAreBounded(t *testing.T) {
	repeat := func(n int, term string) string {
		terms := make([]string, n)
		for i := range terms {
			terms[i] = strings.ReplaceAll(term, "#", fmt.Sprint(i))
		}
		return strings.Join(terms, ",")
	}
	set := func(n int) string { return "k in (" + repeat(n, "v#") + ")" }
	for _, c := range []struct {
		what, tenant, method, path, labels, fields string
		code                                       int
	}{
		{"as many as may be", "a", "GET", "/api/v1/pods", repeat(199, "k#!=v"), "metadata.name!=x", 200},
		{"one more label", "a", "GET", "/api/v1/pods", repeat(200, "k#!=v"), "metadata.name!=x", 400},
		{"one more field", "a", "GET", "/api/v1/pods", repeat(199, "k#!=v"), repeat(2, "metadata.name!=x#"), 400},
		{"many fields", "a", "GET", "/api/v1/pods", "", repeat(201, "metadata.name!=x#"), 400},
		{"as many values as may be", "a", "GET", "/api/v1/pods", set(2000), "", 200},
		{"one more value", "a", "GET", "/api/v1/pods", set(2001), "", 400},
		{"values of two sets", "a", "GET", "/api/v1/pods", set(1500) + "," + set(1500), "", 400},
		{"a watch", "a", "GET", "/api/v1/watch/pods", repeat(201, "k#"), "", 400},
		{"a watch by its parameter", "a", "GET", "/api/v1/pods?watch=1", repeat(201, "k#"), "", 400},
		{"a deletion", "a", "DELETE", "/api/v1/namespaces/x/pods", repeat(201, "k#"), "", 400},
		{"by the tenant's path", "a", "GET", "/tenants/a/api/v1/pods", repeat(201, "k#"), "", 400},
		{"of custom resources", "a", "GET", "/apis/example.com/v1/boats", repeat(201, "k#"), "", 400},
		{"what is no selector is upstream's", "a", "GET", "/api/v1/pods", "k in (", "", 200},
		{"a get selects nothing", "a", "GET", "/api/v1/namespaces/x/pods/y", repeat(201, "k#"), "", 200},
		{"the system", "", "GET", "/api/v1/pods", repeat(201, "k#"), "", 200},
		{"a long query", "a", "GET", "/api/v1/pods", repeat(30000, "k#"), "", 414},
		{"a long query of the system", "", "GET", "/api/v1/pods", repeat(30000, "k#"), "", 414},
		{"a long command", "a", "POST", "/api/v1/namespaces/x/pods/y/exec", repeat(30000, "k#"), "", 200},
	} {
		e := New(Options{Tenants: plainTenants{}})
		who := &user.DefaultInfo{Name: "u"}
		if c.tenant != "" {
			who.Extra = map[string][]string{space.Extra: {c.tenant}}
		}
		e.Authenticator(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: who}, true, nil
		}))
		path, parameter, _ := strings.Cut(c.path, "?")
		query := url.Values{}
		for key, value := range map[string]string{"labelSelector": c.labels, "fieldSelector": c.fields} {
			if value != "" {
				query.Set(key, value)
			}
		}
		req := httptest.NewRequestWithContext(t.Context(), c.method, path, nil)
		req.URL.RawQuery = strings.TrimPrefix(parameter+"&"+query.Encode(), "&")
		w := httptest.NewRecorder()
		served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		err := e.serve(w, req, &chain{Handler: served}, read(req))
		code := w.Code
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			code = int(status.Status().Code)
		}
		if code != c.code {
			t.Errorf("%s: %d, %v, want %d", c.what, code, err, c.code)
		}
	}
}

// TestLongQueriesAreNotRead: what a query asks for is not looked at where it is too long.
func TestLongQueriesAreNotRead(t *testing.T) {
	terms := make([]string, 60_000)
	for i := range terms {
		terms[i] = fmt.Sprint("k", i)
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/namespaces/default/pods", nil)
	req.URL.RawQuery = url.Values{"labelSelector": {strings.Join(terms, ",")}}.Encode()
	if n := testing.AllocsPerRun(1, func() {
		if r := read(req); r.boundQuery(req) == nil {
			t.Error("it is not refused")
		}
	}); n > float64(len(terms)/100) {
		t.Errorf("%v allocations for a query of %d terms", n, len(terms))
	}
	// What is no list carries long queries.
	req.URL.Path, req.URL.RawQuery = "/api/v1/namespaces/default/pods/p/exec", "command="+req.URL.RawQuery
	if r := read(req); r.resource == nil || r.resource.subresource != "exec" || r.boundQuery(req) != nil {
		t.Errorf("exec: %+v", r.resource)
	}
}
