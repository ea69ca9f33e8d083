package issuers

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

const audience = "a4s"

// remote is a provider.
type remote struct {
	*httptest.Server
	// asked is how often it was asked for its keys.
	asked atomic.Int32

	mu  sync.Mutex
	key *rsa.PrivateKey
	id  string
	// answers are instead of its own, by path.
	answers map[string]http.HandlerFunc
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	r := &remote{answers: map[string]http.HandlerFunc{}}
	r.rotate(t, "1")
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		other, key, id := r.answers[req.URL.Path], r.key, r.id
		r.mu.Unlock()
		if req.URL.Path == "/keys" {
			r.asked.Add(1)
		}
		switch {
		case other != nil:
			other(w, req)
		case req.URL.Path == wellKnown:
			answer(w, map[string]any{"issuer": r.URL, "jwks_uri": r.URL + "/keys"})
		case req.URL.Path == "/keys":
			answer(w, map[string]any{"keys": []any{web(id, &key.PublicKey)}})
		default:
			http.NotFound(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func answer(w http.ResponseWriter, v any) {
	_ = json.NewEncoder(w).Encode(v) //nolint:errcheck // the client would fail
}

func segment(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func web(id string, k *rsa.PublicKey) map[string]any {
	return map[string]any{"kty": "RSA", "use": "sig", "kid": id, "n": segment(k.N.Bytes()),
		"e": segment(big.NewInt(int64(k.E)).Bytes())}
}

func (r *remote) rotate(t *testing.T, id string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key, r.id = key, id
}

func (r *remote) instead(path string, h http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[path] = h
}

// token is one of it, with these claims besides those that all have.
func (r *remote) token(t *testing.T, more map[string]any) string {
	t.Helper()
	claims := map[string]any{"iss": r.URL, "aud": audience, "sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range more {
		claims[name] = value
	}
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	head := segment([]byte(`{"alg":"RS256","kid":"`+r.id+`"}`)) + "." + segment(body)
	sum := sha256.Sum256([]byte(head))
	signature, err := rsa.SignPKCS1v15(rand.Reader, r.key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return head + "." + segment(signature)
}

// tenant is one with this provider.
func (r *remote) tenant(name string) *tenantapi.Tenant {
	prefix := "oidc:"
	return &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec: tenantapi.TenantSpec{Authentication: &tenantapi.TenantAuthentication{
			Issuer: tenantapi.TenantIssuer{URL: r.URL, Audiences: []string{audience}, CertificateAuthority: string(
				pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}))},
			ClaimMappings: tenantapi.TenantClaimMappings{
				Username: tenantapi.PrefixedClaim{Claim: "sub", Prefix: &prefix},
				Groups:   &tenantapi.PrefixedClaim{Claim: "groups", Prefix: &prefix},
			},
		}}}
}

func newIssuers(change func(*Options)) (*Issuers, *testclock.FakePassiveClock) {
	time := testclock.NewFakePassiveClock(time.Now())
	o := Options{Dial: func(string) Dial { return (&net.Dialer{}).DialContext }, Clock: time,
		Log: logrus.NewEntry(logrus.New())}
	if change != nil {
		change(&o)
	}
	return New(o), time
}

func TestChoice(t *testing.T) {
	having := func(of ...string) (out []*provider) {
		for _, one := range of {
			tenant, audiences, _ := strings.Cut(one, "=")
			out = append(out, &provider{tenant: tenant, of: &tenantapi.TenantAuthentication{
				Issuer: tenantapi.TenantIssuer{Audiences: strings.Split(audiences, "+")}}})
		}
		return out
	}
	for _, c := range []struct {
		having          []*provider
		audience, named string
		want            string
		decided         bool
	}{
		{having("a=x"), "x", "", "a", true}, {having("a=x"), "x", "a", "a", true},
		{having("a=x"), "x", "b", "a", true},
		{having("a=x"), "y", "", "", true}, {having("a=x"), "y", "b", "", true},
		{having("a=x"), "y", "a", "a", true}, // which refuses it
		{having("a=x", "b=y"), "y", "", "b", true}, {having("a=x", "b=y"), "y", "a", "a", true},
		{having("a=x", "b=y+x"), "x", "", "a", false}, {having("a=x", "b=x"), "x", "b", "b", true},
		{having("a=x", "b=x"), "x", "c", "a", true}, {having("a=x", "b=x"), "x", "system", "a", true},
		{having("a=x", "b=x"), "y", "", "", true},
	} {
		p, decided := choose(c.having, []string{"z", c.audience}, c.named)
		got := ""
		if p != nil {
			got = p.tenant
		}
		if got != c.want || decided != c.decided {
			t.Errorf("%s at %q: %q, %v, want %q, %v", c.audience, c.named, got, decided, c.want, c.decided)
		}
	}
}

// TestLogin: a token is that of a user of the tenant whose provider it is, for as long as the Tenant says so.
func TestLogin(t *testing.T) {
	r, other := newRemote(t), newRemote(t)
	var reserved atomic.Bool
	i, _ := newIssuers(func(o *Options) { o.Reserved = func(string) bool { return reserved.Load() } })
	token := r.token(t, map[string]any{"groups": []string{"dev"}})
	check := func(what, token, named, want string) {
		t.Helper()
		login, err := i.Login(t.Context(), token, named)
		got := ""
		if login != nil {
			got = login.Tenant + " " + login.User.GetName() + " " + strings.Join(login.User.GetGroups(), ",")
		}
		if got != want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	check("without any", token, "a", "")
	i.Changed(r.tenant("a"))
	check("its own", token, "a", "a oidc:ann oidc:dev")
	check("without a path", token, "", "a oidc:ann oidc:dev")
	check("another's", token, "b", "a oidc:ann oidc:dev")
	check("nobody's", other.token(t, nil), "a", "")
	check("signed by another", other.token(t, map[string]any{"iss": r.URL}), "a", "")
	check("for others", r.token(t, map[string]any{"aud": "other"}), "a", "")
	check("for others too", r.token(t, map[string]any{"aud": []string{"other", audience}}), "a", "a oidc:ann ")
	check("expired", r.token(t, map[string]any{"exp": 1}), "a", "")
	check("too long", r.token(t, map[string]any{"x": strings.Repeat("x", maxToken)}), "a", "")
	for _, none := range []string{"", "x", "a.b.c", "..", token + ".x", `{"payload":"a.b."}`} {
		check("no token", none, "a", "")
	}
	reserved.Store(true)
	check("of the cluster", token, "a", "")
	reserved.Store(false)

	// With two tenants the path decides, or the audience.
	i.Changed(r.tenant("b"))
	check("in a", token, "a", "a oidc:ann oidc:dev")
	check("in b", token, "b", "b oidc:ann oidc:dev")
	if login, err := i.Login(t.Context(), token, ""); err != nil || !errors.Is(login.Unclear, ErrSeveral) {
		t.Errorf("without a path: %+v, %v", login, err)
	}
	narrow := r.tenant("b")
	narrow.Spec.Authentication.Issuer.Audiences = []string{"b"}
	i.Changed(narrow)
	check("no path, one audience", token, "", "a oidc:ann oidc:dev")
	check("not b's any more", token, "b", "")

	// A change counts at once, and so does the end.
	moved := r.tenant("a")
	moved.Spec.Authentication.ClaimValidationRules = []tenantapi.RequiredClaim{{Claim: "hd", RequiredValue: "x"}}
	i.Changed(moved)
	check("without the claim", token, "a", "")
	check("with the claim", r.token(t, map[string]any{"hd": "x"}), "a", "a oidc:ann ")
	moved = moved.DeepCopy()
	moved.Spec.Authentication.Issuer.URL = other.URL
	i.Changed(moved)
	check("of the last provider", r.token(t, map[string]any{"hd": "x"}), "a", "")
	i.Changed(r.tenant("a"))
	check("back", token, "a", "a oidc:ann oidc:dev")
	i.Changed(&tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid-a"}})
	check("without a provider", token, "a", "")
	i.Changed(r.tenant("a"))
	i.Gone("a")
	check("gone", token, "a", "")
	i.Gone("b")
	if len(i.byURL) > 0 || len(i.byTenant) > 0 || i.made.Len() > 0 {
		t.Errorf("something stays: %v %v, %d made", i.byURL, i.byTenant, i.made.Len())
	}
}

// TestProvidersAreAskedSeldom: tokens of all kinds ask a provider once in ten seconds, one at a time; a new
// key is known after that, and keys that are old are asked for again while they count.
func TestProvidersAreAskedSeldom(t *testing.T) {
	r := newRemote(t)
	i, now := newIssuers(nil)
	i.Changed(r.tenant("a"))
	works := func(token string) bool {
		login, _ := i.Login(t.Context(), token, "a")
		return login != nil
	}
	first := r.token(t, nil)
	if r.asked.Load() != 0 {
		t.Error("it is asked before there is a token")
	}
	for range 3 {
		if !works(first) {
			t.Fatal("its token does not work")
		}
	}
	r.rotate(t, "2")
	second := r.token(t, nil)
	for range 100 {
		if works(second) {
			t.Fatal("it was asked again at once")
		}
	}
	if n := r.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	now.SetTime(now.Now().Add(askEvery))
	if !works(second) || works(first) || r.asked.Load() != 2 {
		t.Errorf("after a moment the new key, and no other: asked %d times", r.asked.Load())
	}

	// It may be away: what is known counts.
	r.instead("/keys", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusBadGateway) })
	now.SetTime(now.Now().Add(refreshAfter))
	for range 100 {
		if !works(second) {
			t.Fatal("its token does not work while it is away")
		}
	}
}

// TestSlowProvider: the requests that wait for a provider wait for one answer, are not more than may wait, and
// end with their clients.
func TestSlowProvider(t *testing.T) {
	r := newRemote(t)
	i, _ := newIssuers(nil)
	i.Changed(r.tenant("a"))
	release, begun := make(chan struct{}), make(chan struct{}, 1)
	r.instead(wellKnown, func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-release
		answer(w, map[string]any{"issuer": r.URL, "jwks_uri": r.URL + "/keys"})
	})
	token := r.token(t, nil)
	var waiting sync.WaitGroup
	var good, bad atomic.Int32
	for range mostWaiting + 10 {
		waiting.Go(func() {
			login, err := i.Login(t.Context(), token, "a")
			switch {
			case login != nil:
				good.Add(1)
			case errors.Is(err, errWaiting) && errors.Is(err, authn.ErrAway):
				if bad.Add(1) == 10 { // all others wait
					close(release)
				}
			default:
				t.Errorf("%v", err)
			}
		})
	}
	waiting.Wait()
	if good.Load() != mostWaiting || len(begun) != 1 {
		t.Errorf("%d waited, %d did not, asked %d times", good.Load(), bad.Load(), len(begun))
	}
}

// TestAnswersOfProviders: whatever a provider answers, it is refused or of bounded work.
func TestAnswersOfProviders(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	huge := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), maxBits+1), E: 65537}
	for what, c := range map[string]struct {
		path string
		h    func(r *remote) http.HandlerFunc
		want string
	}{
		"another's name": {wellKnown, func(r *remote) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				answer(w, map[string]any{"issuer": r.URL + "x", "jwks_uri": r.URL + "/keys"})
			}
		}, "it calls itself"},
		"keys without TLS": {wellKnown, func(r *remote) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				answer(w, map[string]any{"issuer": r.URL, "jwks_uri": "http://127.0.0.1/keys"})
			}
		}, "not at an https URL"},
		"a redirect": {wellKnown, func(r *remote) http.HandlerFunc {
			return func(w http.ResponseWriter, req *http.Request) {
				http.Redirect(w, req, r.URL+"/x", http.StatusFound)
			}
		}, "redirects are not followed"},
		"a redirect of keys": {"/keys", func(r *remote) http.HandlerFunc {
			return func(w http.ResponseWriter, req *http.Request) {
				http.Redirect(w, req, r.URL+"/x", http.StatusFound)
			}
		}, "redirects are not followed"},
		"no end": {wellKnown, func(*remote) http.HandlerFunc { return endless }, "longer than 256 KiB"},
		"no end of keys": {"/keys", func(*remote) http.HandlerFunc { return endless },
			"longer than 256 KiB"},
		"no end of headers": {"/keys", func(*remote) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X", strings.Repeat("x", 2*maxHeaders))
			}
		}, "server response headers exceeded"},
		"many keys": {"/keys", func(*remote) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				answer(w, map[string]any{"keys": make([]struct{}, mostKeys+1)})
			}
		}, "at most 64 are possible"},
		"unusable keys": {"/keys", func(r *remote) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				answer(w, map[string]any{"keys": []any{web("1", huge), web("1", &small.PublicKey), 7, nil,
					map[string]any{"kty": "oct", "kid": "1", "k": "eA"}}})
			}
		}, errSignature.Error()},
		"no JSON": {"/keys", func(*remote) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }
		}, "invalid character"},
		"an error": {"/keys", func(*remote) http.HandlerFunc { return http.NotFound }, "answers 404"},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRemote(t)
			i, _ := newIssuers(nil)
			i.Changed(r.tenant("a"))
			r.instead(c.path, c.h(r))
			login, err := i.Login(t.Context(), r.token(t, nil), "a")
			if login != nil || err == nil || !strings.Contains(err.Error(), c.want) ||
				errors.Is(err, authn.ErrAway) == (c.want == errSignature.Error()) {
				t.Errorf("%v, %v", login, err)
			}
		})
	}
}

func endless(w http.ResponseWriter, req *http.Request) {
	for req.Context().Err() == nil {
		if _, err := w.Write([]byte(strings.Repeat(" ", 1<<16))); err != nil {
			return
		}
	}
}

// TestNothingElsewhereIsAsked: what a token says is elsewhere is not fetched.
func TestNothingElsewhereIsAsked(t *testing.T) {
	r := newRemote(t)
	var asked atomic.Int32
	r.instead("/claims", func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	i, _ := newIssuers(nil)
	i.Changed(r.tenant("a"))
	login, err := i.Login(t.Context(), r.token(t, map[string]any{"_claim_names": map[string]string{"groups": "s"},
		"_claim_sources": map[string]any{"s": map[string]string{"endpoint": r.URL + "/claims"}}}), "a")
	if login != nil || err == nil || !strings.Contains(err.Error(), errElsewhere.Error()) || asked.Load() > 0 {
		t.Errorf("%v, %v, asked %d times", login, err, asked.Load())
	}
}

// TestDialsAreTheTenants: a provider is reached over connections of its tenant.
func TestDialsAreTheTenants(t *testing.T) {
	r := newRemote(t)
	var of []string
	i, _ := newIssuers(func(o *Options) {
		dial := o.Dial
		o.Dial = func(tenant string) Dial {
			of = append(of, tenant)
			return dial(tenant)
		}
	})
	i.Changed(r.tenant("a"))
	i.Changed(r.tenant("b"))
	if login, err := i.Login(t.Context(), r.token(t, nil), "b"); login == nil || !slices.Equal(of, []string{"b"}) {
		t.Errorf("%v, %v by %q", login, err, of)
	}
}
