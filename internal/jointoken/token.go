package jointoken

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
)

const (
	prefix  = "K10"
	hashLen = 64 // hex digits of SHA-256
	// maxLen bounds a token: it travels in a header.
	maxLen = 1024
	want   = "a token as in the file server/token of a server: K10<hash>::<user>:<password>, " +
		"K10<hash>::<id>.<secret>, or the password alone"
)

var bootstrapForm = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)

// Token is a parsed join token. It has either User and Password, or only
// Password (a bare password), or ID and Secret (a bootstrap token).
type Token struct {
	// CAHash pins the server CA; empty means that nothing is pinned.
	CAHash string
	// User is join.UserServer or join.UserNode.
	User     string
	Password string
	// ID and Secret are the halves of a bootstrap token.
	ID     string
	Secret string
}

// Parse reads a token. The error is a *problem.Input for source, the flag or
// file that the text came from, and never contains the text.
func Parse(source, text string) (Token, error) {
	t, err := parse(text)
	if err != nil {
		return Token{}, &problem.Input{Source: source, Err: err, Want: want}
	}
	return t, nil
}

func parse(text string) (Token, error) {
	var t Token
	switch {
	case text == "":
		return t, errors.New("the token is empty")
	case len(text) > maxLen:
		return t, fmt.Errorf("the token is longer than %d characters", maxLen)
	}
	for _, r := range text {
		if r <= ' ' || r > '~' {
			return t, errors.New("the token contains a space, a control character or a character outside ASCII")
		}
	}
	rest, pinned := strings.CutPrefix(text, prefix)
	if pinned {
		hash, cred, ok := strings.Cut(rest, "::")
		if !ok {
			return t, errors.New("the token begins with K10 but has no \"::\" after the hash")
		}
		if b, err := hex.DecodeString(hash); err != nil || len(b) != hashLen/2 || hash != strings.ToLower(hash) {
			return t, fmt.Errorf("the hash in the token is not %d lower-case hexadecimal digits", hashLen)
		}
		t.CAHash, rest = hash, cred
	}
	if m := bootstrapForm.FindStringSubmatch(rest); m != nil {
		t.ID, t.Secret = m[1], m[2]
		return t, nil
	}
	if !pinned {
		t.Password = rest
		return t, nil
	}
	user, password, ok := strings.Cut(rest, ":")
	switch {
	case !ok:
		return Token{}, errors.New("the token has neither <user>:<password> nor <id>.<secret> after \"::\"")
	case user != joinapi.UserServer && user != joinapi.UserNode:
		return Token{}, fmt.Errorf("the user in the token is neither %q nor %q", joinapi.UserServer, joinapi.UserNode)
	case password == "":
		return Token{}, errors.New("the password in the token is empty")
	}
	t.User, t.Password = user, password
	return t, nil
}

// Encode returns the text of the token, with its secret.
func (t Token) Encode() string {
	cred := t.Password
	switch {
	case t.ID != "":
		cred = t.ID + "." + t.Secret
	case t.CAHash != "":
		cred = t.User + ":" + t.Password
	}
	if t.CAHash == "" {
		return cred
	}
	return prefix + t.CAHash + "::" + cred
}

// String describes the token without its secret.
func (t Token) String() string {
	t.Password, t.Secret = "<redacted>", "<redacted>"
	return t.Encode()
}

// GoString is String, so that %#v prints no secret either.
func (t Token) GoString() string { return t.String() }

// Bootstrap reports whether the token is a bootstrap token.
func (t Token) Bootstrap() bool { return t.ID != "" }

// Authorization returns the value of the Authorization header. A bare
// password goes as user join.UserNode, for which a server accepts both of its
// passwords.
func (t Token) Authorization() string {
	if t.Bootstrap() {
		return "Bearer " + t.ID + "." + t.Secret
	}
	user := t.User
	if user == "" {
		user = joinapi.UserNode
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+t.Password))
}

// ParseBootstrap splits `<id>.<secret>`.
func ParseBootstrap(s string) (id, secret string, ok bool) {
	m := bootstrapForm.FindStringSubmatch(s)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// Random returns a new password of 128 random bits.
func Random() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b)
}

// ReadFile returns the token in the file at path, without surrounding white
// space. Errors are *problem.Input for source, a flag.
func ReadFile(source, path string) (string, error) {
	bad := func(err error) error {
		return &problem.Input{Source: source, Value: path, Err: err, Want: "a readable file that holds one token"}
	}
	f, err := os.Open(path)
	if err != nil {
		return "", bad(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 2*maxLen))
	if err != nil {
		return "", bad(err)
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", bad(errors.New("the file is empty"))
	}
	return text, nil
}
