package encryption

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestNeverEncryptedNeedsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cred", "encryption.yaml")
	if got, err := Ensure(path, false); got != "" || err != nil {
		t.Errorf("Ensure(off) = %q, %v, want nothing", got, err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was written although encryption is off")
	}
}

func TestKeySurvivesTurningOffAndOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cred", "encryption.yaml")
	var on []byte
	for _, step := range []bool{true, true, false, true} {
		if got, err := Ensure(path, step); got != path || err != nil {
			t.Fatalf("Ensure(%v) = %q, %v", step, got, err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		secretbox, identity := bytes.Index(data, []byte("secretbox")), bytes.Index(data, []byte("identity"))
		if secretbox < 0 || identity < 0 || (secretbox < identity) != step {
			t.Errorf("with encryption %v the providers stand as\n%s", step, data)
		}
		if step {
			if on != nil && !bytes.Equal(on, data) {
				t.Error("the key changed")
			}
			on = data
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v, want 0600", info.Mode(), err)
	}
}

func TestDamagedFileIsNotReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var p *problem.Precondition
	if _, err := Ensure(path, true); !errors.As(err, &p) || p.What != path {
		t.Errorf("Ensure = %v, want a precondition on the file", err)
	}
	if data, _ := os.ReadFile(path); string(data) != "{" {
		t.Errorf("the damaged file was changed to %q", data)
	}
}
