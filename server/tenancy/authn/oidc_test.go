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
		good  bool
	}{
		{"team-a", true}, {nil, false}, {"", false}, {"system", false}, {"Team_A", false}, {7, false},
		{[]string{}, false}, {[]string{"team-a"}, false}, {[]string{"team-a", "team-b"}, false},
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
		response, ok, err := authenticator.AuthenticateRequest(req)
		switch {
		case ok != c.good:
			t.Errorf("the tenant %v: %v, %v", c.claim, ok, err)
		case ok && (space.TenantOf(response.User) != c.claim ||
			slices.Contains(response.User.GetGroups(), "system:masters")):
			t.Errorf("the tenant %v: %v", c.claim, response.User)
		}
	}
}
