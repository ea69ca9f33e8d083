package pki

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestServersShareAuthorities(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "tls"), filepath.Join(t.TempDir(), "tls")
	if _, err := Ensure(first, Options{}); err != nil {
		t.Fatal(err)
	}
	files, err := ReadShared(first)
	if err != nil || len(files) != 11 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for range 2 { // the second time they are there
		if err := InstallShared(second, files); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Ensure(second, Options{EtcdSANs: []string{"192.0.2.2", "two"}}); err != nil {
		t.Fatal(err)
	}
	if err := InstallShared(second, files); err != nil {
		t.Errorf("its own certificates are in the way: %v", err)
	}
	cert, err := ReadCert(FilesIn(second).EtcdPeer.Cert)
	if err != nil || cert.VerifyHostname("192.0.2.2") != nil || cert.VerifyHostname("two") != nil ||
		cert.VerifyHostname("127.0.0.1") != nil {
		t.Errorf("the certificate of the datastore: %v, names %v %v", err, cert.DNSNames, cert.IPAddresses)
	}
	for name := range files {
		info, err := os.Stat(filepath.Join(second, name))
		if err != nil || filepath.Ext(name) == ".key" && info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}

	other := filepath.Join(t.TempDir(), "tls")
	if _, err := Ensure(other, Options{}); err != nil {
		t.Fatal(err)
	}
	var pre *problem.Precondition
	if err := InstallShared(other, files); !errors.As(err, &pre) {
		t.Errorf("installing over another cluster: %v", err)
	}
	delete(files, "service.key")
	if err := InstallShared(filepath.Join(t.TempDir(), "tls"), files); err == nil {
		t.Error("half of the files are enough")
	}
}
