package instance

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
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

func TestIDIsPersistent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node", "id")
	first, err := ChooseNodeName("worker", true, file)
	if err != nil || !strings.HasPrefix(first, "worker-") {
		t.Fatalf("Choose = %q, %v", first, err)
	}
	if again, err := ChooseNodeName("worker", true, file); err != nil || again != first {
		t.Errorf("second Choose = %q, %v, want %q", again, err, first)
	}
}

// A machine whose host name changes does not become a second node in silence.
func TestAnotherHostNameIsNoOtherNode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "client.crt")
	if former, err := CheckNodeName("n2", false, file); former != "" || err != nil {
		t.Errorf("before it has joined: %q, %v", former, err)
	}
	key, _, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "system:node:n1"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if former, err := CheckNodeName("n1", false, file); former != "" || err != nil {
		t.Errorf("the same name: %q, %v", former, err)
	}
	if former, err := CheckNodeName("n2", true, file); former != "n1" || err != nil {
		t.Errorf("a name that was set: %q, %v", former, err)
	}
	var refused *problem.Precondition
	if _, err := CheckNodeName("n2", false, file); !errors.As(err, &refused) ||
		!strings.Contains(err.Error(), "--node-name n1") {
		t.Errorf("another host name: %v", err)
	}
}

func TestBadNameIsInput(t *testing.T) {
	var in *problem.Input
	if _, err := ChooseNodeName("Under_score", false, ""); !errors.As(err, &in) || in.Source != "--node-name" {
		t.Errorf("Choose = %v, want a problem.Input for --node-name", err)
	}
}
