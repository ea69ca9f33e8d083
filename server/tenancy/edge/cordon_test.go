package edge

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/limits"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// cordonedTenants are cordoned if their name is in it, and true if they are being deleted.
type cordonedTenants map[string]bool

func (c cordonedTenants) Get(_ context.Context, name string) (*tenantapi.Tenant, error) {
	t := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}
	going, cordoned := c[name]
	if t.Spec.Cordoned = cordoned; going {
		now := metav1.Now()
		t.DeletionTimestamp = &now
	}
	return t, nil
}

func (cordonedTenants) Exists(context.Context, string) (bool, error) { return true, nil }

// freeLimits have no bounds.
type freeLimits struct{}

func (freeLimits) Serve(
	_ context.Context, w http.ResponseWriter, _ limits.Request, serve func(http.ResponseWriter) error,
) error {
	return serve(w)
}

// looked is a body that knows whether somebody has read it.
type looked bool

func (l *looked) Read([]byte) (int, error) {
	*l = true
	return 0, io.EOF
}

const pods, core = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default"

// cordonCases are requests and whether they only read.
var cordonCases = []struct {
	method, path string
	reads        bool
}{
	{"GET", pods, true}, {"HEAD", pods, true}, {"GET", pods + "?watch=1", true}, {"GET", pods + "/p", true},
	{"GET", "/api/v1/watch/namespaces/default/pods", true}, {"GET", pods + "/p/status", true},
	{"GET", "/apis/apps/v1/namespaces/default/deployments/d/scale", true}, {"GET", pods + "/p/log", true},
	{"GET", pods + "/p/log?follow=true", true}, {"GET", pods + "/p/ephemeralcontainers", true},
	{"GET", pods + "/p/resize", true}, {"GET", "/apis/example.com/v1/boats", true},
	{"GET", "/apis/example.com/v1/boats/b/status", true}, {"GET", "/", true}, {"GET", "/api", true},
	{"GET", "/openapi/v3", true}, {"HEAD", "/version", true}, {"GET", "/livez", true},

	{"POST", pods, false}, {"POST", pods + "?dryRun=All", false}, {"PUT", pods + "/p", false},
	{"PATCH", pods + "/p", false}, {"PATCH", pods + "/p?fieldManager=x&force=true", false},
	{"DELETE", pods + "/p", false}, {"DELETE", pods, false}, {"DELETE", pods + "?dryRun=All", false},
	{"POST", "/api/v1/namespaces", false}, {"PUT", core + "/finalize", false},
	{"PUT", pods + "/p/status", false}, {"PATCH", "/apis/apps/v1/namespaces/default/deployments/d/scale", false},
	{"PATCH", pods + "/p/ephemeralcontainers", false}, {"PATCH", pods + "/p/resize", false},
	{"POST", pods + "/p/eviction", false}, {"POST", pods + "/p/binding", false},
	{"POST", core + "/serviceaccounts/default/token", false},
	{"POST", pods + "/p/exec?command=sh", false}, {"GET", pods + "/p/exec?command=sh", false},
	{"POST", pods + "/p/attach", false}, {"GET", pods + "/p/attach", false},
	{"POST", pods + "/p/portforward", false}, {"GET", pods + "/p/portforward", false},
	{"GET", pods + "/p/proxy", false}, {"GET", pods + "/p/proxy/index.html", false},
	{"GET", core + "/services/s/proxy/", false}, {"HEAD", core + "/services/s/proxy/", false},
	{"POST", core + "/services/s/proxy/", false}, {"GET", "/api/v1/proxy/namespaces/default/services/s/", false},
	{"GET", "/apis/example.com/v1/namespaces/default/boats/b/console", false},
	{"GET", "/apis/example.com/v1/namespaces/default/boats/b/log", false},
	{"GET", "/apis/example.com/v1/namespaces/default/boats/b/resize", false},
	{"POST", "/apis/example.com/v1/namespaces/default/boats", false},
	{"POST", core + "/events", false}, {"POST", "/apis/events.k8s.io/v1/namespaces/default/events", false},
	{"PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", false},
	{"OPTIONS", pods, false}, {"BREW", pods + "/p", false}, {"POST", "/version", false}, {"POST", "/nowhere", false},

	{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true},
	{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", true},
	{"POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", true},
	{"POST", "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews", true},
	{"POST", "/apis/authentication.k8s.io/v1/tokenreviews", true},
	{"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", true},
	{"PUT", "/apis/authentication.k8s.io/v1/tokenreviews", false},
	{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews/x", false},
	{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews/x/status", false},
	{"POST", "/apis/example.com/v1/tokenreviews", false}, {"POST", core + "/subjectaccessreviews", false},
	{"POST", "/apis/authorization.k8s.io/v1/somethingelse", false},
}

// TestCordonedTenantsRead: users of a cordoned tenant, its service accounts among them, read and
// nothing else, on every form of path. All others are served as always.
func TestCordonedTenantsRead(t *testing.T) {
	ofTenant := func(name, tenant string) user.Info {
		return &user.DefaultInfo{Name: name, Extra: map[string][]string{space.Extra: {tenant}}}
	}
	const as = "Impersonate-User"
	admin := &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
	for who, c := range map[string]struct {
		user     user.Info
		prefix   string
		header   [2]string
		cordoned bool
	}{
		"a user":                          {user: ofTenant("u", "a"), cordoned: true},
		"a user by prefix":                {user: ofTenant("u", "a"), prefix: "/tenants/a", cordoned: true},
		"a service account":               {user: ofTenant("system:serviceaccount:default.a:sa", "a"), cordoned: true},
		"one of the masters of the space": {user: ofTenant("system:masters.a", "a"), cordoned: true},
		"a user who impersonates another": {user: ofTenant("u", "a"), header: [2]string{as, "v"}, cordoned: true},
		"a user of a tenant that goes":    {user: ofTenant("u", "going")},
		"a user of another tenant":        {user: ofTenant("u", "b")},
		"the system":                      {user: admin},
		"the system in the space":         {user: admin, prefix: "/tenants/a"},
		"the system in another's place": {user: admin, prefix: "/tenants/a", header: [2]string{as, "u"},
			cordoned: true},
		"the system in that of an account": {user: admin,
			header: [2]string{as, "system:serviceaccount:default.a:sa"}, cordoned: true},
		"the system in place of another's": {user: admin, prefix: "/tenants/b", header: [2]string{as, "u"}},
		"the system as one of its own":     {user: admin, header: [2]string{as, "v"}},
	} {
		for _, limited := range []Limits{nil, freeLimits{}} {
			e := New(Options{Tenants: cordonedTenants{"a": false, "going": true}, Limits: limited})
			e.Authenticator(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
				return &authenticator.Response{User: c.user}, true, nil
			}))
			for _, r := range cordonCases {
				body := new(looked)
				req := httptest.NewRequestWithContext(t.Context(), r.method, c.prefix+r.path, body)
				if c.header[0] != "" {
					req.Header.Set(c.header[0], c.header[1])
				}
				served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) })
				err := e.serve(httptest.NewRecorder(), req, &chain{Handler: served}, read(req))
				refused := err != nil && strings.Contains(err.Error(), "is cordoned")
				if refused != (c.cordoned && !r.reads) || refused && (bool(*body) || !apierrors.IsForbidden(err) ||
					!strings.Contains(err.Error(), "tenant a ") ||
					!strings.Contains(err.Error(), "an administrator of the cluster sets spec.cordoned")) {
					t.Errorf("%s: %s %s: %v", who, r.method, r.path, err)
				}
			}
		}
	}
}

// TestQuestionsAreThoseOfTheAPI: every resource of the groups of reviews is decided.
func TestQuestionsAreThoseOfTheAPI(t *testing.T) {
	for _, k := range kinds.Rows() {
		got := isQuestion(schema.GroupResource{Group: k.Group, Resource: k.Resource})
		if got != kinds.IsReview(k.Group) {
			t.Errorf("%s of group %q is a question: %t", k.Resource, k.Group, got)
		}
	}
}

// TestCordonEndsWhatChanges: connections to containers, and writes that wait for their bodies, end
// when the cordon comes; watches and logs go on, and so does everything of other tenants.
func TestCordonEndsWhatChanges(t *testing.T) {
	e := New(Options{Tenants: plainTenants{}})
	for _, c := range []struct {
		tenant, method, path string
		ends                 bool
	}{
		{"a", "POST", pods + "/p/exec", true}, {"a", "GET", pods + "/p/portforward", true}, {"a", "POST", pods, true},
		{"a", "GET", pods + "?watch=1", false}, {"a", "GET", pods + "/p/log?follow=1", false},
		{"b", "POST", pods + "/p/exec", false},
	} {
		req := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
		r := read(req)
		r.userTenant = c.tenant
		tracked, release, err := e.track(req, r)
		if err != nil {
			t.Fatal(err)
		}
		e.TenantCordoned("a")
		if ended := tracked.Context().Err() != nil; ended != c.ends {
			t.Errorf("%s %s of %s ends: %t", c.method, c.path, c.tenant, ended)
		}
		release()
	}
}

// TestCordonCutsConnections: after an upgrade nobody looks at the request any more, so the connection
// itself is cut.
func TestCordonCutsConnections(t *testing.T) {
	e := New(Options{Tenants: plainTenants{}})
	echo := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n") //nolint:errcheck // the client sees it
		io.Copy(conn, buffered)                                          //nolint:errcheck // until it is cut
		_ = conn.Close()
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r := read(req)
		r.userTenant = "a"
		tracked, release, err := e.track(req, r)
		if err != nil {
			t.Error(err)
			return
		}
		defer release()
		e.find("a", r.resource)
		r.resource.streams = true
		p := &wire.Projector{View: e.view("a"), Table: e.table}
		if err := handOn(w, tracked, echo, p, r.resource, nil); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil { // it is not to hang
		t.Fatal(err)
	}
	const first = "POST " + pods + "/p/exec?command=sh HTTP/1.1\r\n" +
		"Host: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
	answered := "HTTP/1.1 101 Switching Protocols\r\n\r\n"
	for _, send := range []string{first, "a line\n"} {
		if _, err := io.WriteString(conn, send); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(answered))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != answered {
			t.Fatalf("%q, %v", got, err)
		}
		answered = "a line\n"
	}
	e.TenantCordoned("a")
	if n, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v: the connection goes on", n, err)
	}
}

// TestCordonEndsImpersonators: what an administrator of the cluster does as a user of the tenant ends,
// what they do as themselves goes on.
func TestCordonEndsImpersonators(t *testing.T) {
	for as, ends := range map[string]bool{"u": true, "": false} {
		e := New(Options{Tenants: cordonedTenants{}})
		e.Authenticator(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: "root",
				Groups: []string{user.SystemPrivilegedGroup}}}, true, nil
		}))
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/tenants/a"+pods, strings.NewReader("{}"))
		if as != "" {
			req.Header.Set("Impersonate-User", as)
		}
		var ended bool
		next := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			e.TenantCordoned("a")
			ended = req.Context().Err() != nil
			w.WriteHeader(200)
		})
		if err := e.serve(httptest.NewRecorder(), req, &chain{Handler: next}, read(req)); err != nil {
			t.Fatal(err)
		}
		if ended != ends {
			t.Errorf("as %q: it ends: %v", as, ended)
		}
	}
}
