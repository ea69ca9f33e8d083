package edge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	endpoints "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// farPartition has the tenant far, and keeps what was sent to it.
type farPartition struct{ sent []Target }

func (*farPartition) Self() string      { return partitionapi.Home }
func (*farPartition) Several() bool     { return true }
func (*farPartition) Has(p string) bool { return p == "tp2" }
func (*farPartition) Elsewhere(tenant string) (string, types.UID) {
	if tenant == "far" {
		return "tp2", "7"
	}
	return "", ""
}
func (*farPartition) Find(context.Context, string) (*partitionapi.TenantPlacement, error) {
	return nil, nil
}
func (*farPartition) Received(*http.Request) *Mark { return nil }
func (p *farPartition) Forward(_ http.ResponseWriter, _ *http.Request, to Target) {
	p.sent = append(p.sent, to)
}

// memberEdge is an edge that knows one user of these tenants, and what it has recorded and served.
type memberEdge struct {
	*Edge
	http.Handler
	far      farPartition
	recorded []user.Info   // refused to
	served   *http.Request // the last request that got to the chain
}

func newMemberEdge(t *testing.T, tenants ...string) *memberEdge {
	t.Helper()
	m := &memberEdge{}
	m.Edge = New(Options{Tenants: plainTenants{}, Partitions: &m.far,
		Queue: fairqueue.New(fairqueue.ForProcessors(2))})
	m.Authenticator(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "alice", Groups: []string{space.Masters},
			Extra: map[string][]string{space.Extra: tenants}}}, true, nil
	}))
	chain := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		m.served = req
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","items":[]}`)
	})
	m.Handler = m.Edge.Handler(chain, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			u, _ := endpoints.UserFrom(req.Context())
			m.recorded = append(m.recorded, u)
			h.ServeHTTP(w, req)
		})
	})
	return m
}

// ask sends a request, and returns the answer.
func (m *memberEdge) ask(t *testing.T, path string, header ...string) (code int, status metav1.Status) {
	t.Helper()
	m.served, m.recorded, m.far.sent = nil, nil, nil
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	req.Header.Set("Authorization", "Bearer x")
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, req)
	if w.Code >= http.StatusBadRequest {
		if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	return w.Code, status
}

// TestMembersChooseByTheURL: the API server sees a member of several tenants as the user of the one
// in the URL, other partitions too, and a request that names none gets no further.
func TestMembersChooseByTheURL(t *testing.T) {
	m := newMemberEdge(t, "b", "a", "far")
	for _, c := range []struct{ path, tenant, space string }{
		{"/tenants/a/api/v1/pods", "a", "a"}, {"/tenants/b/api/v1/pods", "b", "b"},
		{"/api/v1/tenants/b/pods", "b", "b"}, {"/api/v1/watch/tenants/b/pods", "b", "b"},
		// No member: the way of any user of another tenant, whom the authorizer refuses.
		{"/tenants/c/api/v1/pods", "a", "c"}, {"/tenants/system/api/v1/pods", "a", "system"},
		{"/tenants/all/api/v1/pods", "a", "all"},
	} {
		code, status := m.ask(t, c.path)
		if m.served == nil {
			t.Errorf("%s: %d %s", c.path, code, status.Message)
			continue
		}
		u := authn.Authenticated(m.served.Context())
		if got := u.GetExtra()[space.Extra]; !slices.Equal(got, []string{c.tenant}) ||
			!slices.Equal(u.GetGroups(), []string{space.Masters + "." + c.tenant}) {
			t.Errorf("%s: served as %v, want a user of %s", c.path, u, c.tenant)
		}
		if got, _ := space.FromContext(m.served.Context()); got != c.space {
			t.Errorf("%s: addressed to %q, want %q", c.path, got, c.space)
		}
	}

	if _, status := m.ask(t, "/tenants/far/api/v1/pods"); len(m.far.sent) != 1 || m.served != nil {
		t.Errorf("%v sent on, %s", m.far.sent, status.Message)
	} else if to := m.far.sent[0]; to.Partition != "tp2" || to.TenantUID != "7" ||
		!slices.Equal(to.User.GetExtra()[space.Extra], []string{"far"}) {
		t.Errorf("sent on as %+v", to)
	}
	if code, _ := m.ask(t, "/partitions/tp2/tenants/a/api/v1/pods"); code != http.StatusForbidden ||
		len(m.far.sent) > 0 || m.served != nil {
		t.Errorf("a path of partitions: %d", code)
	}
	// Nobody of another tenant is impersonated, be they a member of it.
	const as, extra = "Impersonate-User", "Impersonate-Extra-A4s.io%2ftenant"
	for _, header := range [][]string{{as, "bob", extra, "b"}, {as, "bob", extra, "a", extra, "b"},
		{as, "system:serviceaccount:default.b:web"}} {
		if code, _ := m.ask(t, "/tenants/a/api/v1/pods", header...); code != http.StatusForbidden || m.served != nil {
			t.Errorf("%q: %d", header, code)
		}
	}
	for _, path := range []string{"/api/v1/pods", "/api", "/apis", "/version", "/openapi/v3", "/", "/api/v1/tenants/a",
		"/api/v1/tenants", "/partitions/tp2/api/v1/pods", "/tenants/", "/tenants",
		"/apis/authentication.k8s.io/v1/selfsubjectreviews"} {
		for _, header := range [][]string{nil, {as, "bob"}, {as, "bob", extra, "a"}} {
			code, status := m.ask(t, path, header...)
			if m.served != nil || len(m.far.sent) > 0 {
				t.Errorf("%s %q gets on", path, header)
			}
			var causes []string
			if status.Details != nil {
				for _, c := range status.Details.Causes {
					if c.Type == tenantapi.CauseMember {
						causes = append(causes, c.Message)
					}
				}
			}
			if code != http.StatusBadRequest || status.Reason != metav1.StatusReasonBadRequest ||
				!strings.Contains(status.Message, "(a, b, far)") || !strings.Contains(status.Message, "/tenants/a") ||
				!slices.Equal(causes, []string{"a", "b", "far"}) {
				t.Errorf("%s %q: %d %+v", path, header, code, status)
			}
			if len(m.recorded) != 1 || m.recorded[0].GetName() != "alice" ||
				!slices.Equal(m.recorded[0].GetExtra()[space.Extra], []string{"a", "b", "far"}) {
				t.Errorf("%s: recorded as %v", path, m.recorded)
			}
		}
	}
}

// TestListOfMembershipsIsBounded: the message names some tenants, the causes all.
func TestListOfMembershipsIsBounded(t *testing.T) {
	var names []string
	for i := range 256 {
		names = append(names, fmt.Sprintf("t%021d", i))
	}
	_, status := newMemberEdge(t, names...).ask(t, "/api")
	if len(status.Message) > 1000 || !strings.Contains(status.Message, "and 236 more") {
		t.Errorf("the message is %s", status.Message)
	}
	if status.Details == nil || len(status.Details.Causes) != len(names) {
		t.Errorf("the causes are %+v", status.Details)
	}
}

// TestUnclearTenantsAreToldWhy: who is known, and said to be of what is no list of tenants, gets a
// 401 with the reason, which is recorded.
func TestUnclearTenantsAreToldWhy(t *testing.T) {
	for _, c := range []struct {
		tenants []string
		says    string
	}{
		{[]string{"a", "system"}, `"system" stands beside`}, {[]string{"a", "a"}, `names "a" twice`},
		{[]string{"a", ""}, "invalid name"}, {[]string{"A"}, "invalid name"}, {[]string{"all"}, "reserved name"},
	} {
		m := newMemberEdge(t, c.tenants...)
		for _, path := range []string{"/api/v1/pods", "/tenants/a/api/v1/pods", "/tenants/system/api/v1/pods"} {
			code, status := m.ask(t, path)
			if code != http.StatusUnauthorized || !strings.Contains(status.Message, c.says) || m.served != nil ||
				len(m.recorded) != 1 || m.recorded[0].GetName() != "alice" {
				t.Errorf("%q at %s: %d %q, recorded %v", c.tenants, path, code, status.Message, m.recorded)
			}
		}
	}
}

// TestFlowsOfMembers: a request waits and is counted in the flow of the tenant that its path names,
// also when the last one of the same token named another; one that names none in that of its address.
func TestFlowsOfMembers(t *testing.T) {
	q := newQueue(fairqueue.New(fairqueue.ForProcessors(2)))
	const from = "address:192.0.2.7"
	members := []string{"a", "b"}
	for i, c := range []struct {
		named       string
		members     []string
		first, last string // flows before and after the user is known
	}{
		{"b", members, from, "tenant:b"}, {"b", members, "tenant:b", "tenant:b"},
		{"a", members, "tenant:a", "tenant:a"}, {"", members, from, from}, {"c", members, "tenant:a", "tenant:a"},
		{"b", members, "tenant:b", "tenant:b"},
		// The memberships change.
		{"b", []string{"b"}, "tenant:b", "tenant:b"}, {"", []string{"b"}, from, "tenant:b"},
		{"a", []string{"b"}, "tenant:b", "tenant:b"}, {"a", []string{"a", "c"}, "tenant:b", "tenant:a"},
		{"c", []string{"a", "c"}, "tenant:c", "tenant:c"},
	} {
		req := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
		req.RemoteAddr = "192.0.2.7:1000"
		req.Header.Set("Authorization", "Bearer x")
		a, err := q.enter(req, nil, c.named, 0)
		if err != nil {
			t.Fatal(err)
		}
		if a.flow != c.first {
			t.Errorf("%d: flow %q, want %q", i, a.flow, c.first)
		}
		of, decided := authn.Choose(c.members, c.named)
		u, members := userOf(of), c.members
		if !decided {
			u = &user.DefaultInfo{Name: "u", Extra: map[string][]string{space.Extra: c.members}}
		}
		if len(members) == 1 {
			members = nil
		}
		if err := a.identified(t.Context(), u, members); err != nil {
			t.Fatal(err)
		}
		if a.flow != c.last || a.seat == nil {
			t.Errorf("%d: at last flow %q, want %q", i, a.flow, c.last)
		}
		a.leave()
	}
}

// TestMembersRequestsEndWithTheirTenant: a watch of a member ends when the tenant goes that they
// chose, and when no other does.
func TestMembersRequestsEndWithTheirTenant(t *testing.T) {
	m := newMemberEdge(t, "a", "b")
	for tenant, ends := range map[string]bool{"a": true, "b": false, "c": false} {
		if _, status := m.ask(t, "/tenants/a/api/v1/pods?watch=1"); m.served == nil {
			t.Fatal(status.Message)
		}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/tenants/a/api/v1/pods?watch=1", nil)
		r := read(req)
		req, ok, err := m.authenticate(req, r, &admission{})
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		tracked, release, err := m.track(req, r)
		if err != nil {
			t.Fatal(err)
		}
		if m.TenantGone(tenant); (tracked.Context().Err() != nil) != ends {
			t.Errorf("the watch in a, when %s goes: %v", tenant, tracked.Context().Err())
		}
		release()
	}
}
