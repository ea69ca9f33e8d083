package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// issuerOfA is the provider of tenant a.
type issuerOfA struct {
	name string // of the user
	away bool
}

func (*issuerOfA) Any() bool { return true }

func (i *issuerOfA) Login(context.Context, string, string) (*authn.Login, error) {
	if i.away {
		return nil, fmt.Errorf("%w: it is at 192.0.2.7", authn.ErrAway)
	}
	return &authn.Login{User: &user.DefaultInfo{Name: i.name}, Tenant: "a"}, nil
}

// askIssuer sends a request of a user of the provider.
func askIssuer(t *testing.T, i *issuerOfA, path string) (*memberEdge, *httptest.ResponseRecorder) {
	t.Helper()
	m := newMemberEdge(t)
	m.opts.Issuers = i
	m.Authenticator(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, errors.New("not known")
	}))
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	req.Header.Set("Authorization", "Bearer a.b.c")
	w := httptest.NewRecorder()
	m.ServeHTTP(w, req)
	return m, w
}

// TestProviderThatIsAway: who shows a token that cannot be verified now is told to come again, not that it is of no
// use, and nothing of the provider. A partition that may know more of it is asked first.
func TestProviderThatIsAway(t *testing.T) {
	m, w := askIssuer(t, &issuerOfA{away: true}, "/api/v1/pods")
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || m.served != nil ||
		!strings.Contains(w.Body.String(), authn.ErrAway.Error()) || strings.Contains(w.Body.String(), "192.0.2.7") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if m, _ := askIssuer(t, &issuerOfA{away: true}, "/tenants/far/api/v1/pods"); len(m.far.sent) != 1 {
		t.Errorf("it is not sent on: %v", m.far.sent)
	}
}

// TestRefusedLoginsAreOfTheirTenant: who calls themselves somebody of the system is recorded as somebody of the
// tenant whose provider says so.
func TestRefusedLoginsAreOfTheirTenant(t *testing.T) {
	m, w := askIssuer(t, &issuerOfA{name: "system:admin"}, "/api/v1/pods")
	if w.Code != http.StatusUnauthorized || m.served != nil || len(m.recorded) != 1 ||
		!slices.Equal(m.recorded[0].GetExtra()[space.Extra], []string{"a"}) {
		t.Errorf("%d %s, recorded %v", w.Code, w.Body, m.recorded)
	}
}

// marking has all requests be those of another partition.
type marking struct{ farPartition }

func (*marking) Received(*http.Request) *Mark { return &Mark{Partition: "tp2"} }

// TestGroupsOfAnotherPartitionsUser: a user whom another partition authenticated is a member of what it says, as
// --tenant-group has been asked there.
func TestGroupsOfAnotherPartitionsUser(t *testing.T) {
	for _, p := range []Partitions{&farPartition{}, &marking{}} {
		m := newMemberEdge(t, "a")
		m.others.partitions, m.opts.Groups = p, tenantapi.Groups{space.Masters: {"b"}}
		m.Authenticator(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: "alice", Groups: []string{space.Masters},
				Extra: map[string][]string{space.Extra: {"a"}}}}, true, nil
		}))
		_, marked := p.(*marking)
		want := map[bool]string{false: "b", true: "a"}[marked]
		m.ask(t, "/tenants/b/api/v1/pods")
		if m.served == nil || space.TenantOf(authn.Authenticated(m.served.Context())) != want {
			t.Errorf("marked %v: served %v", marked, m.served)
		}
	}
}
