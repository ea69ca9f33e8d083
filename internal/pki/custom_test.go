package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/problem"
)

// issued is a certificate with its key.
type issued struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func (i issued) pem() []byte { return encode(i.cert) }

func (i issued) keyPEM(t *testing.T) []byte {
	t.Helper()
	data, err := encodeKey(i.key)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// issue makes the certificate of a CA. Without a parent it is a root.
func issue(t *testing.T, parent *issued, change func(*x509.Certificate)) issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, elliptic.P256().Params().N)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "given " + serial.Text(36)}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(20 * 365 * 24 * time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if change != nil {
		change(template)
	}
	from, signer := template, crypto.Signer(key)
	if parent != nil {
		from, signer = parent.cert, parent.key
	}
	der, err := signCert(template, from, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return issued{cert, key}
}

func put(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// verify checks what is in a file of a leaf for those who trust these alone.
func verify(t *testing.T, file string, usage x509.ExtKeyUsage, trusted ...*x509.Certificate) error {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := ParseCerts(data)
	if err != nil {
		t.Fatal(err)
	}
	roots, inter := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range trusted {
		roots.AddCert(c)
	}
	for _, c := range certs[1:] {
		inter.AddCert(c)
	}
	_, err = certs[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: inter,
		KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

func TestGivenAuthorities(t *testing.T) {
	root := issue(t, nil, nil)
	serverCA, clientCA, etcdCA := issue(t, &root, nil), issue(t, &root, nil), issue(t, &root, nil)
	service := issue(t, nil, nil)
	params := pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{1}})
	dir := filepath.Join(t.TempDir(), "tls")
	put(t, dir, map[string][]byte{
		"server-ca.crt": append(serverCA.pem(), root.pem()...), "server-ca.key": append(params, serverCA.keyPEM(t)...),
		"client-ca.crt": append(clientCA.pem(), root.pem()...), "client-ca.key": clientCA.keyPEM(t),
		"etcd/server-ca.crt": append(etcdCA.pem(), root.pem()...), "etcd/server-ca.key": etcdCA.keyPEM(t),
		"service.key": service.keyPEM(t), "root-ca.pem": root.pem(),
	})
	f := ensure(t, dir, time.Now(), "a.example")
	if err := verify(t, f.ServingAPIServer.Cert, x509.ExtKeyUsageServerAuth, root.cert); err != nil {
		t.Errorf("a client that trusts the root alone: %v", err)
	}
	if hash, err := HashBundle([]byte(snapshot(t, dir)["server-ca.crt"])); err != nil ||
		hash != hexSHA256(root.cert.Raw) {
		t.Errorf("hash %s, %v; want that of the root", hash, err)
	}
	files := snapshot(t, dir)
	if files["service.key"] != string(service.keyPEM(t)) || files["root-ca.pem"] != string(root.pem()) {
		t.Error("given files were replaced")
	}
	// Below one root, one CA must not open what is another's.
	if !readCert(t, f.ClientCA.Cert).Equal(clientCA.cert) || !readCert(t, f.EtcdServerCA.Cert).Equal(etcdCA.cert) {
		t.Fatal("another CA is used than the given one")
	}
	etcd, err := LoadCA(f.EtcdServerCA)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(t, f.EtcdClient.Cert, x509.ExtKeyUsageClientAuth, etcd.certs...); err != nil {
		t.Errorf("client of the datastore: %v", err)
	}
	if err := verify(t, f.Admin.Cert, x509.ExtKeyUsageClientAuth, etcd.certs...); err == nil {
		t.Error("a certificate of the client CA opens the datastore")
	}
	for file, want := range map[string]*x509.Certificate{f.ServerCASigner: serverCA.cert,
		f.ClientCASigner: clientCA.cert} {
		if got := snapshot(t, dir)[filepath.Base(file)]; got != string(encode(want)) {
			t.Errorf("%s has not the certificate of the CA alone", file)
		}
	}
	if readCert(t, f.RequestHeaderCA.Cert).Issuer.CommonName == root.cert.Subject.CommonName {
		t.Error("a CA that was not given is below the given root")
	}
	ensure(t, dir, time.Now(), "a.example")
	if got := changed(files, snapshot(t, dir)); len(got) != 0 {
		t.Errorf("the second start changed %v", got)
	}
	if err := os.Remove(f.RequestHeaderCA.Cert); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(dir, Options{}); err == nil {
		t.Error("a CA that was lost later was made again")
	}
}

func TestGivenAuthoritiesAreRefused(t *testing.T) {
	root := issue(t, nil, nil)
	inter := issue(t, &root, nil)
	other := issue(t, nil, nil)
	narrow := issue(t, nil, func(c *x509.Certificate) { c.MaxPathLenZero = true })
	tooDeep := issue(t, &narrow, nil)
	leaf := issue(t, nil, func(c *x509.Certificate) { c.IsCA = false })
	noSign := issue(t, nil, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign })
	expired := issue(t, nil, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	future := issue(t, nil, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) })
	clientsOnly := issue(t, nil, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	})
	cat := func(parts ...issued) (out []byte) {
		for _, p := range parts {
			out = append(out, p.pem()...)
		}
		return out
	}
	for _, tc := range []struct {
		name      string
		cert, key []byte
		file, say string // what the error names and says
	}{
		{"no key", root.pem(), nil, "client-ca.key", "does not exist"},
		{"key alone", nil, root.keyPEM(t), "client-ca.crt", "does not exist"},
		{"another key", root.pem(), other.keyPEM(t), "client-ca.key", "does not belong"},
		{"root first", cat(root, inter), inter.keyPEM(t), "client-ca.key", "certificate 2"},
		{"not a CA", leaf.pem(), leaf.keyPEM(t), "client-ca.crt", "not the certificate of a CA"},
		{"may not sign", noSign.pem(), noSign.keyPEM(t), "client-ca.crt", "may not sign"},
		{"expired", expired.pem(), expired.keyPEM(t), "client-ca.crt", "expired"},
		{"not yet valid", future.pem(), future.keyPEM(t), "client-ca.crt", "not valid before"},
		{"no root", inter.pem(), inter.keyPEM(t), "client-ca.crt", "not a root"},
		{"foreign root", cat(inter, other), inter.keyPEM(t), "client-ca.crt", "is not signed by"},
		{"path too long", cat(tooDeep, narrow), tooDeep.keyPEM(t), "client-ca.crt", "is not valid"},
		{"not for servers", clientsOnly.pem(), clientsOnly.keyPEM(t), "client-ca.crt", "is not valid"},
		{"garbage", []byte("x"), root.keyPEM(t), "client-ca.crt", "no PEM"},
		{"no private key", root.pem(), root.pem(), "client-ca.key", "private key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tls")
			files := map[string][]byte{"server-ca.crt": other.pem(), "server-ca.key": other.keyPEM(t)}
			if tc.cert != nil {
				files["client-ca.crt"] = tc.cert
			}
			if tc.key != nil {
				files["client-ca.key"] = tc.key
			}
			put(t, dir, files)
			before := snapshot(t, filepath.Dir(dir))
			_, err := Ensure(dir, Options{SANs: []string{"a"}})
			var p *problem.Precondition
			if !errors.As(err, &p) || !strings.Contains(p.What, filepath.Join(dir, tc.file)) ||
				!strings.Contains(p.Err.Error(), tc.say) || p.Fix == "" {
				t.Fatalf("%v; want a problem with %s that says %q and what to do", err, tc.file, tc.say)
			}
			after := snapshot(t, filepath.Dir(dir))
			if len(after) != len(before) || len(changed(before, after)) > 0 {
				t.Errorf("something was written: %v", changed(before, after))
			}
		})
	}
	t.Run("service key", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "tls")
		put(t, dir, map[string][]byte{"service.key": []byte("x")})
		var p *problem.Precondition
		if _, err := Ensure(dir, Options{}); !errors.As(err, &p) || len(snapshot(t, filepath.Dir(dir))) != 1 {
			t.Errorf("%v, files %v", err, snapshot(t, filepath.Dir(dir)))
		}
	})
}
