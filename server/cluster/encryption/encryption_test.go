package encryption

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestWithoutEncryptionTheFileSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cred", "encryption.yaml")
	if err := Ensure(path, false); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(data, []byte("identity")) || bytes.Contains(data, []byte("secretbox")) {
		t.Errorf("the file is\n%s%v", data, err)
	}
}

func TestAStartKeepsWhatIsOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cred", "encryption.yaml")
	var first []byte
	for _, flag := range []bool{true, true, false, true} {
		if err := Ensure(path, flag); err != nil {
			t.Fatalf("Ensure(%v) = %v", flag, err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		}
		if !bytes.Equal(first, data) ||
			bytes.Index(data, []byte("secretbox")) > bytes.Index(data, []byte("identity")) {
			t.Errorf("with the flag %v the file became\n%s", flag, data)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v, want 0600", info.Mode(), err)
	}
}

func TestDamagedFileIsNotReplaced(t *testing.T) {
	for _, text := range []string{"{", "resources: []",
		"resources: [{providers: [{secretbox: {keys: [{name: key1, secret: c2hvcnQ=}]}}]}]"} {
		path := filepath.Join(t.TempDir(), "encryption.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var p *problem.Precondition
		if err := Ensure(path, true); !errors.As(err, &p) || p.What != path {
			t.Errorf("Ensure = %v, want a precondition on the file", err)
		}
		if data, _ := os.ReadFile(path); string(data) != text {
			t.Errorf("the damaged file was changed to %q", data)
		}
	}
}
