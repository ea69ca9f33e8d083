package authn

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
)

// maxTokenHeader is how long the header of a JSON web token may be, as the token has it.
const maxTokenHeader = 4 << 10

// errTokenHeader is a token of which nothing may read more, to be matched with errors.Is.
var errTokenHeader = errors.New("the header of the bearer token is none that is read")

// keysInHeader are fields by which a token brings its own key or says where it is. Nothing here goes by them,
// but who reads a token reads them, before it is verified: the check of a long RSA key takes long.
func keysInHeader() []string { return []string{"jwk", "jku", "x5c"} }

// checkTokens refuses a request with a token that no authenticator may read, wherever it has it.
func checkTokens(h http.Header) error {
	for _, token := range bearerTokens(h) {
		if err := checkToken(token); err != nil {
			return err
		}
	}
	return nil
}

// checkToken refuses a JSON web token whose header is too long or has a key. What is none goes on, also with
// two dots: only those who read it know what it is.
func checkToken(token string) error {
	if strings.Count(token, ".") != 2 {
		return nil // nothing reads it as one
	}
	header, _, _ := strings.Cut(token, ".")
	if len(header) > maxTokenHeader {
		return fmt.Errorf("%w: it has %d characters, at most %d are possible", errTokenHeader, len(header),
			maxTokenHeader)
	}
	header = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1 // as who reads it leaves it out
		}
		return r
	}, header)
	if strings.HasPrefix(header, "{") {
		return fmt.Errorf("%w: the token is JSON itself, which has dots in it", errTokenHeader)
	}
	data, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("%w: it is no JSON object", errTokenHeader)
	}
	for name := range fields {
		for _, refused := range keysInHeader() {
			if strings.EqualFold(name, refused) {
				return fmt.Errorf("%w: it has %s", errTokenHeader, refused)
			}
		}
	}
	return nil
}

// Unverified reads the claims that a JSON web token has into claims, a pointer, and verifies nothing: it reports
// whether it is one. What they say may choose who verifies the token, and nothing else.
func Unverified(token string, claims any) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && json.Unmarshal(data, claims) == nil
}
