package spaces_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"math/big"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// guest is an attacker who has the provider of a, and so says in each token who they are.
type guest struct {
	clients []*http.Client
	// answered is how many of their requests were answered in a.
	answered atomic.Int64
}

// guestName is as whom they have all rights in a.
const guestName = "guest"

// newGuest gives a the provider, whose names have no prefix.
func newGuest(t *testing.T, p *plane) *guest {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	h := newHooks(t) // a server outside
	h.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/keys") {
			writeJSON(w, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "use": "sig", "alg": "RS256",
				"kid": "1", "n": segment(key.N.Bytes()), "e": segment(big.NewInt(int64(key.E)).Bytes())}}})
			return
		}
		writeJSON(w, map[string]any{"issuer": h.URL, "jwks_uri": h.URL + "/keys"})
	})
	none := ""
	p.logsInAt(t, "a", &tenantapi.TenantAuthentication{
		Issuer: tenantapi.TenantIssuer{URL: h.URL, Audiences: []string{"a4s"}, CertificateAuthority: string(h.ca)},
		ClaimMappings: tenantapi.TenantClaimMappings{
			Username: tenantapi.PrefixedClaim{Claim: "sub", Prefix: &none},
			Groups:   &tenantapi.PrefixedClaim{Claim: "groups", Prefix: &none},
		},
	})
	p.bind(t, "a", guestName, "cluster-admin")
	g := &guest{}
	for _, sub := range []string{guestName, guestName, guestName, guestName, guestName, guestName, guestName,
		guestName, guestName, guestName, "admin", "mallory", "system:admin",
		"system:kube-controller-manager", "system:serviceaccount:default.b:default",
		"system:serviceaccount:kube-system:namespace-controller", "system:node:web", doubleName} {
		client, err := rest.HTTPClientFor(p.bearer(signed(t, key, map[string]any{"iss": h.URL, "aud": "a4s",
			"sub": sub, "exp": time.Now().Add(24 * time.Hour).Unix(), "tenant": []string{"b", "system"},
			"a4s.io/tenant": "b", "jti": "X509SHA256=0", "groups": []string{"system:masters", "system:nodes",
				"system:masters.b", "system:serviceaccounts:default.b", "a4s:cluster-admins", "tenant:b"}})))
		if err != nil {
			t.Fatal(err)
		}
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		g.clients = append(g.clients, client)
	}
	return g
}

// send sends a request as one of them.
func (w *guest) send(ctx context.Context, g *attacker, r *attack) (int, []byte) {
	g.choose(r)
	code, answer := r.send(ctx, pick(g, w.clients...))
	if code == http.StatusOK && strings.HasPrefix(r.url, g.host+"/tenants/a/") {
		w.answered.Add(1)
	}
	return code, answer
}

func (w *guest) enough(total int) bool { return w.answered.Load() >= int64(total)/4000 }

// check says whether enough was tried.
func (w *guest) check(t *testing.T, total int) {
	t.Helper()
	t.Logf("%d requests of users of the tenant's own provider were answered in its space", w.answered.Load())
	if !w.enough(total) {
		t.Error("too few: the test does not test them")
	}
}
