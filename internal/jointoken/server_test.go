package jointoken

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

func newCA(t *testing.T) []byte {
	t.Helper()
	key, _, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func hashOf(t *testing.T, ca []byte) string {
	t.Helper()
	hash, err := pki.HashBundle(ca)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func TestEnsureServerTokens(t *testing.T) {
	ca := newCA(t)
	type in struct{ server, agent string }
	const fullServer = "(complete)" // stands for the K10 form of "s"
	for _, tc := range []struct {
		name   string
		starts []in // all but the last succeed
		refuse string
		server string // expected passwords, "" for a random one
		agent  string
	}{
		{name: "random", starts: []in{{}}},
		{name: "random is kept", starts: []in{{}, {}}},
		{name: "given", starts: []in{{"s", ""}}, server: "s", agent: "s"},
		{name: "given once is kept", starts: []in{{"s", "a"}, {}}, server: "s", agent: "a"},
		{name: "same again", starts: []in{{"s", "a"}, {"s", "a"}}, server: "s", agent: "a"},
		{name: "complete form", starts: []in{{"s", ""}, {fullServer, ""}}, server: "s", agent: "s"},
		{name: "agent token added", starts: []in{{"s", ""}, {"s", "a"}}, server: "s", agent: "a"},
		{name: "other server token", starts: []in{{"s", ""}, {"x", ""}}, refuse: "--token"},
		{name: "other agent token", starts: []in{{"s", "a"}, {"s", "x"}}, refuse: "--agent-token"},
		{name: "of another cluster", starts: []in{{"K10" + hash + "::server:s", ""}}, refuse: "--token"},
		{name: "bootstrap token", starts: []in{{"abcdef.0123456789abcdef", ""}}, refuse: "--token"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			var prev string
			for i, s := range tc.starts {
				if s.server == fullServer {
					s.server = prev
				}
				tok, err := EnsureServerTokens(dir, s.server, s.agent, ca)
				if tc.refuse != "" && i == len(tc.starts)-1 {
					var in *problem.Input
					if !errors.As(err, &in) || in.Source != tc.refuse {
						t.Fatalf("error %v, want an input error of %s", err, tc.refuse)
					}
					if i > 0 && !strings.Contains(err.Error(), "a4s token rotate") {
						t.Fatalf("error %v does not say what to do", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if i > 0 && tok.Server().Encode() != prev {
					t.Fatal("the server token changed")
				}
				prev = tok.Server().Encode()
				if tc.server != "" && (tok.Server().Password != tc.server) {
					t.Fatalf("server password %q", tok.Server().Password)
				}
				if i == len(tc.starts)-1 && tc.agent != "" && tok.Agent().Password != tc.agent {
					t.Fatalf("agent password %q", tok.Agent().Password)
				}
			}
			for _, name := range []string{ServerFile, NodeFile, AgentFile} {
				path := filepath.Join(dir, name)
				text, err := ReadFile("x", path)
				if err != nil {
					t.Fatal(err)
				}
				if tok, err := Parse("x", text); err != nil || tok.CAHash != hashOf(t, ca) {
					t.Errorf("%s does not hold a token of this cluster: %v", name, err)
				}
				if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o600 {
					t.Errorf("%s: mode %v, %v", name, fi.Mode(), err)
				}
			}
		})
	}
}

// What nodes join with does not let them join as servers, once agents have a token of
// their own.
func TestNodeTokenIsThatOfAgents(t *testing.T) {
	dir, ca := t.TempDir(), newCA(t)
	expect := func(when, password, user string) {
		t.Helper()
		text, err := ReadFile("x", filepath.Join(dir, NodeFile))
		if err != nil {
			t.Fatal(err)
		}
		if tok, err := Parse("x", text); err != nil || tok.Password != password || tok.User != user {
			t.Errorf("%s: %s holds the password %q of %q, %v", when, NodeFile, tok.Password, tok.User, err)
		}
	}
	tok, err := EnsureServerTokens(dir, "s", "", ca)
	if err != nil {
		t.Fatal(err)
	}
	expect("one token", "s", "server")
	if _, err := tok.Rotate("node", "a"); err != nil {
		t.Fatal(err)
	}
	expect("an agent token by rotation", "a", "node")
	if _, err := EnsureServerTokens(dir, "", "", ca); err != nil {
		t.Fatal(err)
	}
	expect("a restart", "a", "node")

	dir = t.TempDir()
	if _, err := EnsureServerTokens(dir, "s", "a", ca); err != nil {
		t.Fatal(err)
	}
	expect("an agent token from the start", "a", "node")
}

func TestCheckAndRotate(t *testing.T) {
	dir, ca := t.TempDir(), newCA(t)
	tok, err := EnsureServerTokens(dir, "s", "", ca)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(user, password string, want bool) {
		t.Helper()
		if got := tok.Check(user, password); got != want {
			t.Errorf("Check(%q, %q) = %v", user, password, got)
		}
	}
	expect("server", "s", true)
	expect("node", "s", true)
	expect("server", "", false)
	expect("root", "s", false)

	if _, err := tok.Rotate("server", "s2"); err != nil {
		t.Fatal(err)
	}
	expect("server", "s", false)
	expect("node", "s", false) // was never set apart, so it followed
	expect("node", "s2", true)

	got, err := tok.Rotate("node", "")
	if err != nil || got.User != "node" || got.Password == "" {
		t.Fatalf("%s, %v", got, err)
	}
	expect("node", got.Password, true)
	expect("node", "s2", true) // the server token may do more, not less
	expect("server", got.Password, false)

	for _, bad := range []struct{ which, password string }{{"root", "x"}, {"node", "a b"},
		{"node", "K10" + hash + "::node:x"}} {
		if _, err := tok.Rotate(bad.which, bad.password); err == nil {
			t.Errorf("Rotate(%v) succeeded", bad)
		}
	}
	again, err := EnsureServerTokens(dir, "", "", ca)
	if err != nil || again.Server() != tok.Server() || again.Agent() != tok.Agent() {
		t.Errorf("after a restart: %v, %v; %v", again.Server() == tok.Server(), again.Agent() == tok.Agent(), err)
	}
}

func TestDamagedTokenFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ServerFile)
	if err := os.WriteFile(path, []byte("K10s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := EnsureServerTokens(dir, "", "", newCA(t))
	var p *problem.Precondition
	if !errors.As(err, &p) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "s3cret") {
		t.Fatalf("error %v", err)
	}
}
