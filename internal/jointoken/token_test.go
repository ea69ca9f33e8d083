package jointoken

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

var hash = strings.Repeat("0123456789abcdef", 4)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Token
	}{
		{"K10" + hash + "::server:s3:cret", Token{CAHash: hash, User: "server", Password: "s3:cret"}},
		{"K10" + hash + "::node:x", Token{CAHash: hash, User: "node", Password: "x"}},
		{"K10" + hash + "::abcdef.0123456789abcdef", Token{CAHash: hash, ID: "abcdef", Secret: "0123456789abcdef"}},
		{"abcdef.0123456789abcdef", Token{ID: "abcdef", Secret: "0123456789abcdef"}},
		{"password::with:colons", Token{Password: "password::with:colons"}},
	} {
		got, err := Parse("--token", tc.text)
		if err != nil || got != tc.want || got.Encode() != tc.text {
			t.Errorf("Parse(%q) = %#v, %v; want %#v", tc.text, got, err, tc.want)
		}
	}
}

func TestParseRefusesWithoutPrintingTheSecret(t *testing.T) {
	for _, text := range []string{
		"", "s3cret with space", "s3cret\n", "s3crét", strings.Repeat("s3cret", 500),
		"K10s3cret", "K10" + hash, "K10" + hash[1:] + "::server:s3cret",
		"K10" + strings.ToUpper(hash) + "::server:s3cret",
		"K10" + hash + "::s3cret", "K10" + hash + "::root:s3cret", "K10" + hash + "::server:", "K10" + hash + "::",
	} {
		_, err := Parse("--token-file", text)
		var in *problem.Input
		if !errors.As(err, &in) || in.Source != "--token-file" || in.Want == "" {
			t.Errorf("Parse(%q) = %v, want a *problem.Input", text, err)
		} else if strings.Contains(err.Error(), "s3c") {
			t.Errorf("the error prints the secret: %v", err)
		}
	}
}

func TestFormattingNeverPrintsTheSecret(t *testing.T) {
	for _, tok := range []Token{{CAHash: hash, User: "server", Password: "s3cret"}, {Password: "s3cret"},
		{ID: "abcdef", Secret: "s3cret"}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if got := fmt.Sprintf(verb, tok); strings.Contains(got, "s3cret") {
				t.Errorf("%s prints %s", verb, got)
			}
		}
	}
}

func TestAuthorization(t *testing.T) {
	for _, tc := range []struct {
		tok  Token
		want string
	}{
		{Token{User: "server", Password: "a"}, "Basic c2VydmVyOmE="},
		{Token{Password: "a"}, "Basic bm9kZTph"},
		{Token{ID: "abcdef", Secret: "0123456789abcdef"}, "Bearer abcdef.0123456789abcdef"},
	} {
		if got := tc.tok.Authorization(); got != tc.want {
			t.Errorf("Authorization() = %q, want %q", got, tc.want)
		}
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, data string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if got, err := ReadFile("--token-file", write("good", " pass\r\n\n")); err != nil || got != "pass" {
		t.Errorf("%q, %v", got, err)
	}
	for _, path := range []string{write("empty", "\n"), filepath.Join(dir, "missing"), dir} {
		_, err := ReadFile("--token-file", path)
		var in *problem.Input
		if !errors.As(err, &in) || in.Value != path {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "pass", "K10" + hash + "::server:p",
		"K10" + hash + "::abcdef.0123456789abcdef", "K10::", "a::b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := Parse("--token", s)
		if err != nil {
			if tok != (Token{}) {
				t.Errorf("a refused token carries data: %s", tok)
			}
			return
		}
		if tok.Encode() != s {
			t.Errorf("Encode(Parse(%q)) = %q", s, tok.Encode())
		}
		if strings.ContainsAny(tok.Authorization(), "\r\n") {
			t.Errorf("header injection with %q", s)
		}
	})
}
