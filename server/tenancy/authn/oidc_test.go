package authn

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
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
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
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

// TestOpenIDConnectWithGroupsAsDocumented: who has neither the claim nor one of the groups is refused, and the groups
// give the tenants that the servers map them to.
func TestOpenIDConnectWithGroupsAsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/tenants/users.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "# of a provider that names tenants or groups\n")
	text, _, found := strings.Cut(rest, "```")
	var says struct {
		ClaimValidationRules []struct{ Expression, Message string }
		ClaimMappings        struct {
			Extra []struct{ Key, ValueExpression string }
		}
	}
	if err := yaml.UnmarshalStrict([]byte(text), &says); err != nil || !found {
		t.Fatal(err)
	}
	rule, extra := says.ClaimValidationRules[0], says.ClaimMappings.Extra[0]
	provider := apiserver.JWTAuthenticator{
		Issuer:               apiserver.Issuer{URL: "https://login.example.com", Audiences: []string{"a4s"}},
		ClaimValidationRules: []apiserver.ClaimValidationRule{{Expression: rule.Expression, Message: rule.Message}},
		ClaimMappings: apiserver.ClaimMappings{
			Username: apiserver.PrefixedClaimOrExpression{Claim: "sub", Prefix: new("oidc:")},
			Groups:   apiserver.PrefixedClaimOrExpression{Claim: "groups", Prefix: new("oidc:")},
			Extra:    []apiserver.ExtraMapping{{Key: extra.Key, ValueExpression: extra.ValueExpression}},
		},
	}
	tokens, err := oidc.New(t.Context(), oidc.Options{JWTAuthenticator: provider, KeySet: signedByAnyone{}})
	if err != nil {
		t.Fatal(err)
	}
	authenticator := Wrap(bearertoken.New(tokens), Options{Groups: tenantapi.Groups{
		"oidc:platform": {"team-a", "team-b"}, "oidc:team-c": {"team-c"}}})
	for _, c := range []struct {
		claims map[string]any
		path   string
		want   string // the tenant, "" if the token is refused
	}{
		{map[string]any{}, "", ""},
		{map[string]any{"groups": []string{"others", "oidc:platform"}}, "team-a", ""},
		{map[string]any{"groups": []string{"platform"}}, "team-b", "team-b"},
		{map[string]any{"groups": []string{"team-c"}}, "", "team-c"},
		{map[string]any{"tenant": "team-x", "groups": []string{"platform"}}, "", "team-x"},
		{map[string]any{"tenant": "team-x", "groups": []string{"platform"}}, "team-a", "team-a"},
		{map[string]any{"tenant": "team-x", "groups": []string{"others"}}, "team-a", "team-x"},
		{map[string]any{"tenant": "system", "groups": []string{"platform"}}, "team-a", ""},
		{map[string]any{"tenant": "", "groups": []string{"platform"}}, "team-a", ""},
	} {
		claims := map[string]any{"iss": provider.Issuer.URL, "aud": "a4s", "sub": "alice",
			"exp": time.Now().Add(time.Hour).Unix()}
		maps.Copy(claims, c.claims)
		body, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		part := base64.RawURLEncoding.EncodeToString
		req := &http.Request{Header: http.Header{"Authorization": {"Bearer " + part([]byte(`{"alg":"RS256"}`)) + "." +
			part(body) + "." + part([]byte("signature"))}}}
		response, ok, err := authenticator.AuthenticateRequest(req.WithContext(withPath(t.Context(), c.path)))
		if ok != (c.want != "") || ok && space.TenantOf(response.User) != c.want {
			t.Errorf("%v at %q: %v, %v", c.claims, c.path, ok, err)
		}
	}
}
