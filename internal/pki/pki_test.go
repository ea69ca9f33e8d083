package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/problem"
)

func ensure(t *testing.T, dir string, now time.Time, sans ...string) *Files {
	t.Helper()
	f, err := Ensure(dir, Options{SANs: sans, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// snapshot returns the content of every file below dir.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir+"/")] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func changed(before, after map[string]string) []string {
	var out []string
	for name, data := range after {
		if before[name] != data {
			out = append(out, name)
		}
	}
	return out
}

func readCert(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := ParseCerts(data)
	if err != nil {
		t.Fatal(err)
	}
	return certs[0]
}

func TestEnsureMakesWhatItSays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	f := ensure(t, dir, time.Now(), "a.example", "192.0.2.1", "a.example")
	for _, tc := range []struct {
		pair, ca Pair
		cn, org  string
		usage    x509.ExtKeyUsage
	}{
		{f.ServingAPIServer, f.ServerCA, "kube-apiserver", "", x509.ExtKeyUsageServerAuth},
		{f.Admin, f.ClientCA, "system:admin", "system:masters", x509.ExtKeyUsageClientAuth},
		{f.Supervisor, f.ClientCA, "system:a4s-supervisor", "system:masters", x509.ExtKeyUsageClientAuth},
		{f.ControllerManager, f.ClientCA, "system:kube-controller-manager", "", x509.ExtKeyUsageClientAuth},
		{f.Scheduler, f.ClientCA, "system:kube-scheduler", "", x509.ExtKeyUsageClientAuth},
		{f.APIServerKubeletClient, f.ClientCA, "system:kube-apiserver", "", x509.ExtKeyUsageClientAuth},
		{f.Partition, f.ClientCA, "system:a4s:partition:main", "system:a4s:partitions", x509.ExtKeyUsageClientAuth},
		{f.AuthProxy, f.RequestHeaderCA, "system:auth-proxy", "", x509.ExtKeyUsageClientAuth},
		{f.EtcdClient, f.EtcdServerCA, "etcd-client", "", x509.ExtKeyUsageClientAuth},
		{f.EtcdServer, f.EtcdServerCA, "etcd-server", "", x509.ExtKeyUsageServerAuth},
		{f.EtcdPeer, f.EtcdPeerCA, "etcd-peer", "", x509.ExtKeyUsageServerAuth},
	} {
		if _, err := tls.LoadX509KeyPair(tc.pair.Cert, tc.pair.Key); err != nil {
			t.Errorf("%s: %v", tc.pair.Cert, err)
		}
		cert := readCert(t, tc.pair.Cert)
		if got := strings.Join(cert.Subject.Organization, ","); cert.Subject.CommonName != tc.cn || got != tc.org {
			t.Errorf("%s: subject CN=%s O=%s", tc.pair.Cert, cert.Subject.CommonName, got)
		}
		roots := x509.NewCertPool()
		roots.AddCert(readCert(t, tc.ca.Cert))
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots,
			KeyUsages: []x509.ExtKeyUsage{tc.usage}}); err != nil {
			t.Errorf("%s: %v", tc.pair.Cert, err)
		}
	}
	serving := readCert(t, f.ServingAPIServer.Cert)
	for _, name := range []string{"a.example", "192.0.2.1"} {
		if err := serving.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	for name := range snapshot(t, dir) {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".key") && fi.Mode() != 0o600 {
			t.Errorf("%s has mode %v", name, fi.Mode())
		}
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%s has mode %v, %v", dir, fi.Mode(), err)
	}
}

func TestEnsureRenewsOnlyWhatNeedsIt(t *testing.T) {
	start := time.Now()
	for _, tc := range []struct {
		name string
		now  time.Time
		sans []string
		want int // changed files
	}{
		{"nothing to do", start.Add(LeafLife - RenewBefore - 2*time.Hour), []string{"192.0.2.1", "a.example"}, 0},
		{"close to the end", start.Add(LeafLife - RenewBefore + time.Hour), []string{"a.example", "192.0.2.1"}, 11},
		{"further name", start, []string{"a.example", "192.0.2.1", "b.example"}, 1},
		{"fewer names", start, []string{"a.example"}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tls")
			ensure(t, dir, start, "a.example", "192.0.2.1")
			before := snapshot(t, dir)
			ensure(t, dir, tc.now, tc.sans...)
			got := changed(before, snapshot(t, dir))
			if len(got) != tc.want {
				t.Fatalf("changed %v, want %d files", got, tc.want)
			}
			for _, name := range got {
				if strings.HasSuffix(name, ".key") || strings.Contains(name, "-ca.") {
					t.Errorf("%s was replaced", name)
				}
			}
		})
	}
}

func TestEnsureSurvivesACrashOnFirstStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	if err := os.MkdirAll(filepath.Join(dir+".new", "etcd"), 0o700); err != nil { // died while making CAs
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil { // an empty directory counts as none
		t.Fatal(err)
	}
	f := ensure(t, dir, time.Now())
	if err := os.Remove(f.Admin.Cert); err != nil { // died between key and certificate
		t.Fatal(err)
	}
	before := snapshot(t, dir)
	ensure(t, dir, time.Now())
	if got := changed(before, snapshot(t, dir)); len(got) != 1 || got[0] != "client-admin.crt" {
		t.Fatalf("changed %v, want client-admin.crt alone", got)
	}
}

func TestEnsureRefusesDamage(t *testing.T) {
	remove := func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	garble := func(t *testing.T, path string) {
		if err := os.WriteFile(path, []byte("-----BEGIN nothing"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	otherKey := func(t *testing.T, path string) {
		_, data, err := NewKey()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		file   string
		damage func(*testing.T, string)
	}{
		{"server-ca.crt", remove}, {"server-ca.key", remove}, {"client-ca.crt", garble}, {"client-ca.key", otherKey},
		{"etcd/peer-ca.key", garble}, {"service.key", remove}, {"service.key", garble},
		{"client-admin.crt", garble}, {"client-admin.key", garble}, {"serving-kube-apiserver.key", otherKey},
	} {
		t.Run(tc.file, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tls")
			ensure(t, dir, time.Now(), "a")
			tc.damage(t, filepath.Join(dir, tc.file))
			before := snapshot(t, dir)
			_, err := Ensure(dir, Options{SANs: []string{"a"}})
			var p *problem.Precondition
			if !errors.As(err, &p) || !strings.Contains(err.Error(), filepath.Join(dir, tc.file)) || p.Fix == "" {
				t.Fatalf("error %v, want a precondition that names %s and a fix", err, tc.file)
			}
			if got := changed(before, snapshot(t, dir)); len(got) != 0 {
				t.Fatalf("changed %v", got)
			}
		})
	}
	t.Run("expired CA", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "tls")
		ensure(t, dir, time.Now())
		_, err := Ensure(dir, Options{Now: func() time.Time { return time.Now().Add(CALife + time.Hour) }})
		var p *problem.Precondition
		if !errors.As(err, &p) || !strings.Contains(err.Error(), "expired") {
			t.Fatalf("error %v", err)
		}
	})
}

func TestCSRGivesOnlyAGoodPublicKey(t *testing.T) {
	csr := func(template x509.CertificateRequest, key crypto.Signer) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: blockCSR, Bytes: der})
	}
	good, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	shortRSA := mustRSA(t)
	valid := csr(x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:admin", Organization: []string{GroupMasters}},
		DNSNames: []string{"evil"},
	}, good)
	b, _ := pem.Decode(valid)
	b.Bytes[len(b.Bytes)-1] ^= 1 // the signature is at the end
	for _, tc := range []struct {
		name string
		in   []byte
		ok   bool
	}{
		{"good", valid, true},
		{"tampered", pem.EncodeToMemory(b), false},
		{"weak curve", csr(x509.CertificateRequest{}, p224), false},
		{"short RSA", csr(x509.CertificateRequest{}, shortRSA), false},
		{"not PEM", []byte("x"), false},
	} {
		pub, err := CSRPublicKey(tc.in)
		if (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
		if tc.ok && !samePublicKey(pub, good.Public()) {
			t.Errorf("%s: another key came out", tc.name)
		}
	}
}

func mustRSA(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestNodeCertificates(t *testing.T) {
	f := ensure(t, filepath.Join(t.TempDir(), "tls"), time.Now())
	clientCA, err := LoadCA(f.ClientCA)
	if err != nil {
		t.Fatal(err)
	}
	serverCA, err := LoadCA(f.ServerCA)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	parse := func(data []byte, err error) *x509.Certificate {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		certs, err := ParseCerts(data)
		if err != nil {
			t.Fatal(err)
		}
		return certs[0]
	}
	client := parse(clientCA.SignNodeClient(key.Public(), "n1", "", ""))
	if got, err := clientCA.VerifyClient([]*x509.Certificate{client}); err != nil ||
		got.Subject.CommonName != "system:node:n1" || got.Subject.Organization[0] != "system:nodes" {
		t.Errorf("client: %v, %v", got, err)
	}
	serving := parse(serverCA.SignNodeServing(key.Public(), "n1", []net.IP{net.ParseIP("192.0.2.7")}))
	for _, name := range []string{"n1", "192.0.2.7"} {
		if err := serving.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := clientCA.VerifyClient([]*x509.Certificate{serving}); err == nil {
		t.Error("a certificate of the server CA passes as a client")
	}
	// Signed by the right CA, but not for clients.
	notClient := parse(clientCA.SignNodeServing(key.Public(), "n1", nil))
	if _, err := clientCA.VerifyClient([]*x509.Certificate{notClient}); err == nil {
		t.Error("a serving certificate passes as a client")
	}
}

// chain returns the PEM of a root and of an intermediate CA below it.
func chain(t *testing.T) (rootPEM, interPEM []byte) {
	t.Helper()
	rootPEM, rootKey, err := newCA("root", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	roots, err := ParseCerts(rootPEM)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ParseKey(rootKey)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := signCert(&x509.Certificate{
		Subject: pkix.Name{CommonName: "inter"}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, SerialNumber: big.NewInt(1),
	}, roots[0], key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return rootPEM, pem.EncodeToMemory(&pem.Block{Type: blockCert, Bytes: der})
}

func TestHashBundle(t *testing.T) {
	root, inter := chain(t)
	evil, evilInter := chain(t)
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	block, _ := pem.Decode(root)

	if got, err := HashBundle(root); err != nil || got != hexSHA256(root) {
		t.Errorf("one certificate: %s, %v; want the hash of the PEM bytes", got, err)
	}
	for _, b := range [][]byte{cat(inter, root), cat(root, inter)} {
		if got, err := HashBundle(b); err != nil || got != hexSHA256(block.Bytes) {
			t.Errorf("chain: %s, %v; want the hash of the DER root", got, err)
		}
		if got, err := Pinned(append(b, evil...), hexSHA256(block.Bytes)); err != nil ||
			len(got) != len(inter)+len(root) || bytes.Contains(got, evil) {
			t.Errorf("pinned %s, %v; want the chain alone", got, err)
		}
	}
	var mismatch *HashMismatchError
	if _, err := Pinned(evil, hexSHA256(root)); !errors.As(err, &mismatch) || mismatch.Got != hexSHA256(evil) {
		t.Errorf("another CA: %v", err)
	}
	// A right root must not carry a foreign CA into the trust store.
	for name, b := range map[string][]byte{
		"two roots": cat(root, evil), "foreign intermediate": cat(root, evilInter),
		"no root": cat(inter, inter), "empty": nil,
		"truncated": cat(root, inter[:len(inter)/2]),
	} {
		if _, err := HashBundle(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
