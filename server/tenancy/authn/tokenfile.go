package authn

import (
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/space"
)

const tokenFileFlag = "--token-auth-file"

// NewTokenFile reads a file of static tokens with the columns
//
//	token,user,uid,"group1,group2",tenant
//
// where groups and tenant may be left out. The tenant may also stand behind an
// empty column, as older files have it. The users that it authenticates have
// their tenant as an extra attribute.
func NewTokenFile(path string) (authenticator.Token, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, &problem.Input{Source: tokenFileFlag, Value: path, Err: err}
	}
	defer file.Close() //nolint:errcheck // it is only read
	tokens := map[string]*user.DefaultInfo{}
	reader := csv.NewReader(file)
	reader.FieldsPerRecord = -1
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return tokenfile.New(tokens), nil
		}
		if err != nil {
			return nil, &problem.Input{Source: tokenFileFlag, Value: path, Err: err}
		}
		line, _ := reader.FieldPos(0)
		token, u, err := parseToken(record)
		if err != nil {
			return nil, &problem.Input{Source: fmt.Sprintf("%s: %s: line %d", tokenFileFlag, path, line), Err: err,
				Want: `token,user,uid,"group1,group2",tenant`}
		}
		if token != "" {
			tokens[token] = u
		}
	}
}

// parseToken reads one line. Upstream skips those without a token.
func parseToken(record []string) (string, *user.DefaultInfo, error) {
	if len(record) < 3 {
		return "", nil, fmt.Errorf("%d columns", len(record))
	}
	u := &user.DefaultInfo{Name: record[1], UID: record[2]}
	if len(record) > 3 {
		for _, g := range strings.Split(record[3], ",") {
			if g != "" {
				u.Groups = append(u.Groups, g)
			}
		}
	}
	tenant := ""
	switch {
	case len(record) <= 4:
		return record[0], u, nil
	case len(record) == 5:
		tenant = record[4]
	case len(record) == 6 && record[4] == "":
		tenant = record[5]
	default:
		return "", nil, fmt.Errorf("%d columns", len(record))
	}
	if err := checkTenant(tenant); err != nil {
		return "", nil, err
	}
	u.Extra = map[string][]string{space.Extra: {tenant}}
	return record[0], u, nil
}

// tokenFile is the tenant in the token file of a user whom upstream has
// authenticated by that file, which ok says; "" if the file names none.
func (t *tenanted) tokenFile(req *http.Request, token string, u user.Info) (string, bool) {
	if token == "" || t.opts.TokenFile == nil || len(u.GetExtra()) > 0 {
		return "", false
	}
	response, ok, err := t.opts.TokenFile.AuthenticateToken(req.Context(), token)
	if err != nil || !ok || response.User.GetName() != u.GetName() || response.User.GetUID() != u.GetUID() {
		return "", false
	}
	return strings.Join(response.User.GetExtra()[space.Extra], ","), true
}

// bearerToken is the token of a request, from where upstream takes it.
func bearerToken(h http.Header) string {
	if tokens := bearerTokens(h); len(tokens) > 0 {
		return tokens[0]
	}
	return ""
}

// bearerTokens are all from which upstream may take one.
func bearerTokens(h http.Header) (tokens []string) {
	if kind, token, ok := strings.Cut(strings.TrimSpace(h.Get("Authorization")), " "); ok &&
		strings.EqualFold(kind, "bearer") {
		if token, _, _ = strings.Cut(token, " "); token != "" {
			tokens = append(tokens, token)
		}
	}
	const protocol = "base64url.bearer.authorization.k8s.io."
	for _, line := range h.Values("Sec-WebSocket-Protocol") {
		for _, p := range strings.Split(line, ",") {
			encoded, ok := strings.CutPrefix(strings.TrimSpace(p), protocol)
			if !ok {
				continue
			}
			if token, err := base64.RawURLEncoding.DecodeString(encoded); err == nil && utf8.Valid(token) {
				tokens = append(tokens, string(token))
			}
		}
	}
	return tokens
}
