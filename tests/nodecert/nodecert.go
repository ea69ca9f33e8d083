package nodecert

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/a4s-io/a4s/internal/pki"
)

// Write makes the key of a node of the home partition and signs its client certificate with
// the CA of a server.
func Write(t testing.TB, server *pki.Files, node string, to pki.Pair) {
	t.Helper()
	for _, path := range []string{to.Cert, to.Key} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ca, err := pki.LoadCA(server.ClientCA)
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.EnsureKey(to.Key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.SignNodeClient(key.Public(), node, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to.Cert, cert, 0o600); err != nil {
		t.Fatal(err)
	}
}

// WriteAll is Write with the CA of servers, too: all that a node has.
func WriteAll(t testing.TB, server *pki.Files, node string, to pki.NodeFiles) {
	t.Helper()
	Write(t, server, node, to.Client)
	ca, err := os.ReadFile(server.ServerCA.Cert)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to.ServerCA, ca, 0o600); err != nil {
		t.Fatal(err)
	}
}
