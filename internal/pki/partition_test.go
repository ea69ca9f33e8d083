package pki

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestPartitionsShareWhatClientsSee: another partition has the CAs by which clients and
// servers know each other, and a datastore and service accounts of its own.
func TestPartitionsShareWhatClientsSee(t *testing.T) {
	home, err := Ensure(filepath.Join(t.TempDir(), "tls"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := ReadCluster(home.Dir)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "tls")
	for range 2 { // a start that was interrupted asks again
		if err := InstallCluster(dir, files); err != nil {
			t.Fatal(err)
		}
	}
	tp2, err := Ensure(dir, Options{Partition: "tp2"})
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	same := func(a, b string) bool { return bytes.Equal(read(a), read(b)) }
	for i, ca := range home.authorities() {
		other := tp2.authorities()[i]
		if shared := i < len(home.ofCluster()); same(ca.pair.Cert, other.pair.Cert) != shared ||
			same(ca.pair.Key, other.pair.Key) != shared {
			t.Errorf("%s: want it to be shared: %t", ca.name, shared)
		}
	}
	if same(home.ServiceAccountKey, tp2.ServiceAccountKey) {
		t.Error("partitions share the key of service accounts")
	}
	if cn := readCert(t, tp2.Partition.Cert).Subject.CommonName; cn != "system:a4s:partition:tp2" {
		t.Errorf("the partition is %s", cn)
	}
	// Files of another cluster, and names that lead out of the directory.
	if err := InstallCluster(home.Dir, map[string][]byte{}); err == nil {
		t.Error("nothing is enough")
	}
	another, err := Ensure(filepath.Join(t.TempDir(), "tls"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := InstallCluster(another.Dir, files); err == nil {
		t.Error("a server of another cluster is taken over")
	}
	files["../evil"] = []byte("x")
	if err := InstallCluster(filepath.Join(t.TempDir(), "tls"), files); err == nil {
		t.Error("a file outside is written")
	}
}
