package authn

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/space"
)

func fixed(u user.Info) authenticator.Request {
	return authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: u, Audiences: authenticator.Audiences{"api"}}, true, nil
	})
}

func tenantExtra(values ...string) map[string][]string {
	return map[string][]string{space.Extra: values}
}

func TestTenantOfUsers(t *testing.T) {
	const account = "system:serviceaccount:"
	for name, c := range map[string]struct {
		user   user.DefaultInfo
		dflt   string
		tenant string // "" when refused
		named  string // the user's name inside, if another
	}{
		"service account of a tenant": {user: user.DefaultInfo{Name: account + "default.t1:web",
			Groups: []string{"system:serviceaccounts:default.t1"}}, dflt: "t9", tenant: "t1"},
		"service account of the system": {user: user.DefaultInfo{Name: account + "kube-system:dns"},
			dflt: "t9", tenant: "system"},
		"service account, tenant said too": {user: user.DefaultInfo{Name: account + "default.t1:web",
			Extra: tenantExtra("t1")}, tenant: "t1"},
		"service account, another tenant said": {user: user.DefaultInfo{Name: account + "default.t1:web",
			Extra: tenantExtra("t2")}},
		"service account, system said": {user: user.DefaultInfo{Name: account + "default.t1:web",
			Extra: tenantExtra("system")}},
		"native service account of a webhook": {user: user.DefaultInfo{Name: account + "default:web",
			Extra: tenantExtra("t1")}, tenant: "t1", named: account + "default.t1:web"},
		"group of another tenant": {user: user.DefaultInfo{Name: "alice",
			Groups: []string{"system:serviceaccounts:default.t2"}, Extra: tenantExtra("t1")}},
		"extra": {user: user.DefaultInfo{Name: "alice", Extra: tenantExtra("t1")},
			dflt: "t9", tenant: "t1"},
		"extra, system": {user: user.DefaultInfo{Name: "alice", Extra: tenantExtra("system")},
			dflt: "t9", tenant: "system"},
		"extra, two values": {user: user.DefaultInfo{Name: "alice",
			Extra: tenantExtra("t1", "t2")}},
		"extra, twice the same": {user: user.DefaultInfo{Name: "alice",
			Extra: tenantExtra("t1", "t1")}},
		"extra, empty":    {user: user.DefaultInfo{Name: "alice", Extra: tenantExtra("")}},
		"extra, invalid":  {user: user.DefaultInfo{Name: "alice", Extra: tenantExtra("t1.t2")}},
		"extra, reserved": {user: user.DefaultInfo{Name: "alice", Extra: tenantExtra("all")}},
		"nothing": {user: user.DefaultInfo{Name: "alice",
			Groups: []string{"system:masters"}}, tenant: "system"},
		"nothing, default tenant": {user: user.DefaultInfo{Name: "alice", Groups: []string{"system:masters"}},
			dflt: "t9", tenant: "t9"},
		"bootstrap token": {user: user.DefaultInfo{Name: "system:bootstrap:abcdef",
			Groups: []string{"system:bootstrappers"}}, dflt: "t9", tenant: "system"},
		"name like a bootstrap token": {user: user.DefaultInfo{Name: "system:bootstrap:abcdef"},
			dflt: "t9", tenant: "t9"},
		"anonymous": {user: user.DefaultInfo{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}},
			dflt: "t9", tenant: "system"},
	} {
		t.Run(name, func(t *testing.T) {
			given, cached := c.user, c.user
			cached.Extra, cached.Groups = maps.Clone(given.Extra), slices.Clone(given.Groups)
			response, ok, err := Wrap(fixed(&cached), Options{DefaultTenant: c.dflt}).
				AuthenticateRequest(&http.Request{})
			if !reflect.DeepEqual(cached, given) {
				t.Errorf("the user of the inner authenticator was changed to %v", cached)
			}
			if c.tenant == "" {
				if ok || !errors.Is(err, ErrTenant) {
					t.Fatalf("got %v, %v, %v, want a refusal", response, ok, err)
				}
				return
			}
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if got := space.TenantOf(response.User); got != c.tenant {
				t.Errorf("got tenant %q", got)
			}
			if _, marked := response.User.GetExtra()[space.Extra]; marked != (c.tenant != space.System) {
				t.Errorf("the extra attributes are %v", response.User.GetExtra())
			}
			if want := c.named; want != "" && response.User.GetName() != want {
				t.Errorf("got user %q", response.User.GetName())
			}
			if !slices.Equal(response.Audiences, authenticator.Audiences{"api"}) {
				t.Errorf("got audiences %v", response.Audiences)
			}
		})
	}
}

func TestTenantOfAmbiguousUser(t *testing.T) {
	for _, u := range []user.Info{
		&user.DefaultInfo{Name: "a", Extra: tenantExtra("t1", "t2")},
		&user.DefaultInfo{Name: "system:serviceaccount:default.t1:a", Extra: tenantExtra("t2")},
	} {
		if got := space.TenantOf(u); got != space.All {
			t.Errorf("%v: got %q", u, got)
		}
	}
	// Upstream drops the extra attributes of a service account that takes on
	// the identity of its node.
	if got := space.TenantOf(&user.DefaultInfo{Name: "system:serviceaccount:default.t1:a"}); got != "t1" {
		t.Errorf("got %q", got)
	}
	if got := space.TenantOf(nil); got != space.System {
		t.Errorf("got %q", got)
	}
}

func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.csv")
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`a,alice,1,"g1,g2",t1`, `b,bob,2,,t2`, `c,carol,3,"g1",,t3`, `d,dora,4,"g1"`, `e,eve,5`,
		`f,fred,6,,system`, `,nobody,7,,t1`)
	tokens, err := NewTokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Upstream reads the file too and decides who authenticates by it.
	upstream, err := tokenfile.NewCSV(path)
	if err != nil {
		t.Fatal(err)
	}
	request := Wrap(group.NewAuthenticatedGroupAdder(bearertoken.New(upstream)),
		Options{DefaultTenant: "t9", TokenFile: tokens})
	socket := Wrap(websocket.NewProtocolAuthenticator(upstream), Options{DefaultTenant: "t9", TokenFile: tokens})
	for token, want := range map[string]struct {
		tenant string
		groups []string
	}{"a": {"t1", []string{"g1", "g2"}}, "b": {"t2", nil}, "c": {"t3", []string{"g1"}}, "d": {"t9", []string{"g1"}},
		"e": {"t9", nil}, "f": {"system", nil}} {
		response, ok, err := request.AuthenticateRequest(&http.Request{
			Header: http.Header{"Authorization": {"Bearer " + token}},
		})
		if err != nil || !ok || space.TenantOf(response.User) != want.tenant {
			t.Errorf("%s: got %v, %v, %v, want %s", token, response, ok, err, want.tenant)
			continue
		}
		if got := response.User.GetGroups(); want.tenant != space.System &&
			!slices.Equal(got, append(want.groups, user.AllAuthenticated)) {
			t.Errorf("%s: got groups %q", token, got)
		}
	}
	// "YQ" is "a".
	response, ok, err := socket.AuthenticateRequest(&http.Request{Header: http.Header{
		"Connection": {"upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Protocol": {"base64url.bearer.authorization.k8s.io.YQ, v5.channel.k8s.io"},
	}})
	if err != nil || !ok || space.TenantOf(response.User) != "t1" {
		t.Errorf("websocket: got %v, %v, %v", response, ok, err)
	}
	// The same token does not make the user of another authenticator theirs.
	other := Wrap(fixed(&user.DefaultInfo{Name: "root", UID: "0"}), Options{TokenFile: tokens})
	response, _, err = other.AuthenticateRequest(&http.Request{Header: http.Header{"Authorization": {"Bearer a"}}})
	if err != nil || space.TenantOf(response.User) != space.System {
		t.Errorf("got %v, %v", response, err)
	}

	for _, line := range []string{`a,alice,1,,`, `a,alice,1,"g1",Bad`, `a,alice,1,"g1",all`, `a,alice,1,g1,,`,
		`a,alice,1,g1,t1,t2`, `a,alice`, `a,"alice`} {
		write(`x,ok,1`, line)
		_, err := NewTokenFile(path)
		var input *problem.Input
		if !errors.As(err, &input) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v", line, err)
		}
	}
}

func TestEarlyAnswersOnce(t *testing.T) {
	calls := 0
	answer := func() (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "alice", Extra: tenantExtra("t1")}}, true, nil
	}
	a := Wrap(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		calls++
		return answer()
	}), Options{})
	original := (&http.Request{Header: http.Header{}, TLS: &tls.ConnectionState{}}).WithContext(context.Background())

	req, response, ok, err := Early(a, original, "")
	if err != nil || !ok || space.TenantOf(response.User) != "t1" || calls != 1 {
		t.Fatal(response, ok, err, calls)
	}
	if got := Authenticated(req.Context()); got == nil || got.GetName() != "alice" {
		t.Errorf("the context has %v", got)
	}
	if Authenticated(original.Context()) != nil {
		t.Error("the original request was changed")
	}
	// What a TokenReview asks has no connection.
	review := (&http.Request{Header: http.Header{}}).WithContext(req.Context())
	if _, _, _ = a.AuthenticateRequest(review); calls != 2 {
		t.Errorf("the answer was given to another request")
	}
	// Another server of the chain has another authenticator.
	if _, _, _ = Wrap(a, Options{}).AuthenticateRequest(req.Clone(authenticator.WithAudiences(req.Context(),
		authenticator.Audiences{"api"}))); calls != 2 {
		t.Errorf("the chain authenticated again")
	}
	if _, _, _ = a.AuthenticateRequest(req); calls != 3 {
		t.Errorf("the answer was given twice")
	}
	if _, _, _ = a.AuthenticateRequest(Again(req)); calls != 3 {
		t.Errorf("the request was authenticated again on its second way through the chain")
	}

	answer = func() (*authenticator.Response, bool, error) { return nil, false, errors.New("expired") }
	req, _, ok, err = Early(a, original, "")
	if ok || err == nil || Authenticated(req.Context()) != nil {
		t.Error(ok, err)
	}
	before := calls
	if _, ok, again := a.AuthenticateRequest(req); ok || !errors.Is(again, err) || calls != before {
		t.Errorf("a refusal is not remembered: %v, %v", ok, again)
	}

	// The token of the API server itself is known to the chain only.
	loopback := original.Clone(context.Background())
	loopback.TLS, loopback.RemoteAddr = &tls.ConnectionState{ServerName: "apiserver-loopback-client"}, "127.0.0.1:1"
	before = calls
	if got, _, ok, err := Early(a, loopback, ""); ok || err != nil || calls != before || got != loopback {
		t.Errorf("the API server's own request was authenticated: %v, %v", ok, err)
	}
	// Its name alone is anybody's.
	for _, from := range []string{"192.0.2.7:1", "[2001:db8::7]:1", "127.0.0.1", ""} {
		before, loopback.RemoteAddr = calls, from
		if _, _, ok, err := Early(a, loopback, ""); ok || err == nil || calls != before+1 {
			t.Errorf("who asks from %q was not authenticated: %v, %v", from, ok, err)
		}
	}
}

func TestConfine(t *testing.T) {
	for name, c := range map[string]struct {
		inner authenticator.Request
		ok    bool
	}{
		"own":     {fixed(&user.DefaultInfo{Name: "a", Extra: tenantExtra("t1")}), true},
		"another": {fixed(&user.DefaultInfo{Name: "a", Extra: tenantExtra("t2")}), false},
		"system":  {fixed(&user.DefaultInfo{Name: "a"}), false},
		"invalid": {authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return nil, false, errors.New("secret of t2")
		}), false},
	} {
		response, ok, err := Confine(c.inner, "t1").AuthenticateRequest(&http.Request{})
		if ok != c.ok || (response != nil) != c.ok || (!ok && !errors.Is(err, errToken)) {
			t.Errorf("%s: got %v, %v, %v", name, response, ok, err)
		}
	}
}
