package authn

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// TestTokensWithKeysAreNotRead: a token whose header brings a key is read by nothing, wherever it stands, for
// that work has no bound; what is no JSON web token goes to the authenticators as it is.
func TestTokensWithKeysAreNotRead(t *testing.T) {
	part := base64.RawURLEncoding.EncodeToString
	signed := func(header string) string { return part([]byte(header)) + "." + part([]byte(`{"iss":"x"}`)) + ".eA" }
	ways := map[string]func(token string) http.Header{
		"bearer": func(token string) http.Header { return http.Header{"Authorization": {"bearer " + token}} },
		"socket": func(token string) http.Header {
			return http.Header{"Sec-Websocket-Protocol": {"v5.channel.k8s.io",
				"x, base64url.bearer.authorization.k8s.io." + part([]byte(token))}}
		},
		"socket, behind another": func(token string) http.Header {
			return http.Header{"Authorization": {"Bearer x"}, "Sec-Websocket-Protocol": {
				"base64url.bearer.authorization.k8s.io.eA, base64url.bearer.authorization.k8s.io." +
					part([]byte(token))}}
		},
	}
	long := `{"alg":"RS256","kid":"` + strings.Repeat("k", maxTokenHeader) + `"}`
	for what, c := range map[string]struct {
		token string
		read  bool
	}{
		"a key":                 {signed(`{"alg":"RS256","jwk":{"kty":"RSA","d":"AQ"}}`), false},
		"a key behind escapes":  {signed(`{"alg":"RS256","\u006a\u0077k":{}}`), false},
		"a key in capitals":     {signed(`{"alg":"RS256","JwK":{}}`), false},
		"a key, then none":      {signed(`{"jwk":{"d":"AQ"},"jwk":null}`), false},
		"a certificate":         {signed(`{"x5c":[]}`), false},
		"an address":            {signed(`{"jku":"https://x"}`), false},
		"a key and spaces":      {signed(" \n{\"jwk\":{}}"), false},
		"spaces in the header":  {"\t" + strings.Replace(signed(`{"jwk":{}}`), "e", "e\u2003", 1), false},
		"a header without end":  {signed(`{"jwk":{}`), false},
		"more than a header":    {signed(`{"alg":"RS256"}{"jwk":{}}`), false},
		"long":                  {signed(long), false},
		"JSON itself":           {`{"payload":"x.eA.y","header":{"jwk":{}}}`, false},
		"JSON behind spaces":    {"\n" + `{"payload":"x.eA.y","header":{"jwk":{}}}`, false},
		"as it should be":       {signed(`{"alg":"RS256","kid":"jwk"}`), true},
		"opaque":                {"opaque", true},
		"opaque, with dots":     {"a.b.c", true},
		"opaque, with bad dots": {"=.=.=", true},
		"a list":                {signed(`[{"jwk":{}}]`), true},
		"encrypted":             {signed(`{"jwk":{}}`) + ".x.y", true}, // nothing reads these
	} {
		for way, header := range ways {
			read := false
			a := Wrap(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
				read = true
				return &authenticator.Response{User: &user.DefaultInfo{Name: "ann"}}, true, nil
			}), Options{})
			req := (&http.Request{Header: header(c.token)}).WithContext(t.Context())
			_, ok, err := a.AuthenticateRequest(req)
			if ok != c.read || read != c.read || errors.Is(err, errTokenHeader) == c.read {
				t.Errorf("%s, %s: %v, %v, read: %v", what, way, ok, err, read)
			}
		}
	}
}
