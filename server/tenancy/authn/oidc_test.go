package authn

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"

	"github.com/a4s-io/a4s/internal/space"
)

// signedByAnyone takes every signature: what is tested are the claims.
type signedByAnyone struct{}

func (signedByAnyone) VerifySignature(_ context.Context, token string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
}

// TestOpenIDConnectAsDocumented: the file that docs/tenants/users.md shows is one that upstream
// reads, and no token that it takes leads to another space than its claim names.
func TestOpenIDConnectAsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/tenants/users.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "# /etc/a4s/authentication.yaml\n")
	file, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/tenants/users.md shows no authentication.yaml")
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).
		UniversalDecoder(apiserver.SchemeGroupVersion)
	object, err := runtime.Decode(decoder, []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	provider := object.(*apiserver.AuthenticationConfiguration).JWT[0]
	tokens, err := oidc.New(t.Context(), oidc.Options{JWTAuthenticator: provider, KeySet: signedByAnyone{}})
	if err != nil {
		t.Fatal(err)
	}
	authenticator := Wrap(bearertoken.New(tokens), Options{DefaultTenant: "t9"})

	for _, c := range []struct {
		claim any // nil: there is none
		path  string
		want  string // the tenant, "" if the token is refused
	}{
		{"team-a", "", "team-a"}, {"team-a", "team-b", "team-a"}, {nil, "", ""}, {"", "", ""}, {"system", "", ""},
		{"Team_A", "", ""}, {7, "", ""},
		{[]any{}, "", ""}, {[]any{"team-a"}, "", "team-a"}, {[]any{"team-b", "team-a"}, "team-a", "team-a"},
		{[]any{"team-b", "team-a"}, "team-b", "team-b"}, {[]any{"team-b", "team-a"}, "", ""},
		{[]any{"team-b", "team-a"}, "system", "team-a"}, // no member there
		{[]any{"system"}, "", ""}, {[]any{"system"}, "system", ""}, {[]any{"team-a", "system"}, "system", ""},
		{[]any{"team-a", ""}, "team-a", ""}, {[]any{""}, "", ""}, {[]any{"team-a", 7}, "team-a", ""},
		{[]any{[]any{"team-a"}}, "", ""}, {[]any{"team-a", []any{"system"}}, "team-a", ""},
		{map[string]any{"team-a": "system"}, "", ""},
	} {
		claims := map[string]any{"iss": provider.Issuer.URL, "aud": provider.Issuer.Audiences[0], "sub": "alice",
			"groups": []string{"system:masters"}, "exp": time.Now().Add(time.Hour).Unix()}
		if c.claim != nil {
			claims["tenant"] = c.claim
		}
		body, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		part := base64.RawURLEncoding.EncodeToString
		req := &http.Request{Header: http.Header{"Authorization": {"Bearer " + part([]byte(`{"alg":"RS256"}`)) + "." +
			part(body) + "." + part([]byte("signature"))}}}
		response, ok, err := authenticator.AuthenticateRequest(req.WithContext(withPath(t.Context(), c.path)))
		switch {
		case ok != (c.want != ""):
			t.Errorf("the tenant %v at %q: %v, %v", c.claim, c.path, ok, err)
		case ok && (space.TenantOf(response.User) != c.want ||
			slices.Contains(response.User.GetGroups(), "system:masters")):
			t.Errorf("the tenant %v at %q: %v", c.claim, c.path, response.User)
		}
	}
}
