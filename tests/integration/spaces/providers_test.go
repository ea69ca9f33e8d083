package spaces_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/tests/nstest"
)

// TestTenantFromIdentityProviders: an OIDC provider by structured
// authentication and a webhook name the tenant in the extra attribute
// a4s.io/tenant.
func TestTenantFromIdentityProviders(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	of := startProvider(t)
	p := start(t, of.configure)
	p.tenant(t, "a")
	token := func(claims map[string]any) string { return of.token(t, claims) }
	for _, c := range []struct {
		name, token, user string
		code              int
	}{
		{"OIDC", token(map[string]any{"sub": "alice", "tenant": "a"}), "oidc:alice", http.StatusCreated},
		{"webhook", "hook-bob@a", "bob", http.StatusCreated},
		{"two tenants, of which none is chosen", "hook-carol@a,b", "", http.StatusBadRequest},
		{"two tenants, one of them the system", "hook-carol@a,system", "", http.StatusUnauthorized},
		{"no name of a tenant", "hook-dave@A_B", "", http.StatusUnauthorized},
		{"nobody", "hook-", "", http.StatusUnauthorized},
	} {
		cfg := rest.AnonymousClientConfig(p.Admin)
		cfg.BearerToken, cfg.QPS = c.token, -1
		code, body := do(t, cfg, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`, nil)
		if code != c.code || (c.user != "" && !strings.Contains(body, `"username":"`+c.user+`"`)) {
			t.Errorf("%s: %d %.400s", c.name, code, body)
		}
		if c.user == "" {
			continue
		}
		if code, _ := get(t, cfg, "/api/v1/tenantplacements"); code != http.StatusForbidden {
			t.Errorf("%s lists what is the system's: %d", c.name, code)
		}
		if code, body := do(t, cfg, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			`{"spec":{"nonResourceAttributes":{"path":"/version","verb":"get"}}}`, nil); code != http.StatusCreated ||
			!strings.Contains(body, `"tenant":"a"`) && !strings.Contains(body, `"allowed":true`) {
			t.Errorf("%s asks for his rights: %d %.300s", c.name, code, body)
		}
	}
}

// provider is an OIDC provider, and a webhook that authenticates tokens hook-USER@TENANT,TENANT.
type provider struct {
	issuer string
	key    *rsa.PrivateKey
	// args are those of the API server.
	args []string
}

// startProvider starts one that ends with the test.
func startProvider(t *testing.T) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	var issuer string
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"issuer": issuer, "jwks_uri": issuer + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w,
			map[string]any{"keys": []any{map[string]any{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1",
				"n": segment(key.N.Bytes()), "e": segment(big.NewInt(int64(key.E)).Bytes())}}})
	})
	mux.HandleFunc("/review", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		name, tenants, ok := strings.Cut(strings.TrimPrefix(review.Spec.Token, "hook-"), "@")
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok && name != ""}
		review.Status.User = authenticationv1.UserInfo{Username: name, Groups: []string{"system:masters"},
			Extra: map[string]authenticationv1.ExtraValue{}}
		if tenants != "" {
			review.Status.User.Extra["a4s.io/tenant"] = strings.Split(tenants, ",")
		}
		writeJSON(w, review)
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	issuer = server.URL
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	indented := "        " + strings.ReplaceAll(strings.TrimSpace(ca), "\n", "\n        ")
	structured := write("authentication.yaml", `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
  - issuer:
      url: `+issuer+`
      audiences: [a4s]
      certificateAuthority: |
`+indented+`
    claimMappings:
      username: {claim: sub, prefix: "oidc:"}
      groups: {claim: groups, prefix: "oidc:"}
      extra:
        - key: a4s.io/tenant
          valueExpression: claims.tenant
`)
	webhook := write("webhook.yaml", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: hook, cluster: {server: %s/review, certificate-authority: %s}}]
users: [{name: a4s, user: {}}]
contexts: [{name: hook, context: {cluster: hook, user: a4s}}]
current-context: hook
`, issuer, write("ca.pem", ca)))
	return &provider{issuer: issuer, key: key, args: []string{"authentication-config=" + structured,
		"authentication-token-webhook-config-file=" + webhook, "authentication-token-webhook-version=v1"}}
}

// configure has a server ask it.
func (p *provider) configure(cfg *config.Server) { cfg.KubeAPIServerArgs = p.args }

// token is one of OIDC.
func (p *provider) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	claims["iss"], claims["aud"], claims["exp"] = p.issuer, "a4s", time.Now().Add(24*time.Hour).Unix()
	return signed(t, p.key, claims)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) //nolint:errcheck // the client would fail
}

func segment(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// signed is a JSON Web Token.
func signed(t *testing.T, key *rsa.PrivateKey, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	head := segment([]byte(`{"alg":"RS256","kid":"1","typ":"JWT"}`)) + "." + segment(payload)
	sum := sha256.Sum256([]byte(head))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return head + "." + segment(signature)
}
