package pki

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func certsIn(t *testing.T, path string) []*x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := ParseCerts(data)
	if err != nil {
		t.Fatal(err)
	}
	return certs
}

func hashOf(t *testing.T, f *Files) string {
	t.Helper()
	data, err := os.ReadFile(f.ServerCA.Cert)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := HashBundle(data)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func TestRotate(t *testing.T) {
	oldRoot, newRoot := issue(t, nil, nil), issue(t, nil, nil)
	below := func(root issued) map[string][]byte {
		ca := issue(t, &root, nil)
		return map[string][]byte{"server-ca.crt": append(ca.pem(), root.pem()...), "server-ca.key": ca.keyPEM(t)}
	}
	single := func() map[string][]byte {
		ca := issue(t, nil, nil)
		return map[string][]byte{"server-ca.crt": ca.pem(), "server-ca.key": ca.keyPEM(t), "client-ca.crt": ca.pem(),
			"client-ca.key": ca.keyPEM(t)}
	}
	for _, tc := range []struct {
		name     string
		old, new map[string][]byte // nil: made by Ensure and by Rotate
		replaced int
		sameHash bool
	}{
		{"self-signed", nil, nil, 5, false},
		{"self-signed by given", nil, single(), 2, false},
		{"self-signed by given below a root", nil, below(newRoot), 1, false},
		{"given below a root by self-signed", below(oldRoot), nil, 5, false},
		{"below another root", below(oldRoot), below(newRoot), 1, false},
		{"below the same root", below(oldRoot), below(oldRoot), 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := t.TempDir()
			dir, from, backup := filepath.Join(base, "tls"), "", filepath.Join(base, "backup")
			start := time.Now()
			put(t, dir, tc.old)
			f := ensure(t, dir, start, "a.example")
			if tc.new != nil {
				from = filepath.Join(base, "given")
				put(t, from, tc.new)
			}
			before, oldHash := snapshot(t, dir), hashOf(t, f)
			was := certsIn(t, f.ServerCA.Cert)
			oldTrust := was[len(was)-1:]

			r, err := Rotate(dir, RotateOptions{From: from, Backup: backup})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Replaced) != tc.replaced {
				t.Errorf("replaced %v, want %d", r.Replaced, tc.replaced)
			}
			if kept := snapshot(t, r.Backup); len(kept) != len(before) || len(changed(before, kept)) > 0 {
				t.Errorf("the backup differs in %v", changed(before, kept))
			}
			f = ensure(t, dir, time.Now(), "a.example")
			newHash := hashOf(t, f)
			if (newHash == oldHash) != tc.sameHash {
				t.Errorf("hash %s, was %s", newHash, oldHash)
			}
			if former, err := Former(f.FormerCAs); err != nil ||
				(strings.Join(former, " ") == oldHash) == tc.sameHash {
				t.Errorf("former hashes %v, %v", former, err)
			}
			bundle, err := os.ReadFile(f.ServerCA.Cert)
			if err != nil {
				t.Fatal(err)
			}
			// Old and new tokens, old and new trust, all are good now.
			for _, hash := range []string{oldHash, newHash} {
				pinned, err := Pinned(bundle, hash)
				if err != nil {
					t.Fatal(err)
				}
				trusted, err := ParseCerts(pinned)
				if err != nil {
					t.Fatal(err)
				}
				if err := verify(t, f.ServingAPIServer.Cert, x509.ExtKeyUsageServerAuth, trusted...); err != nil {
					t.Errorf("a token with hash %s: %v", hash, err)
				}
			}
			if err := verify(t, f.ServingAPIServer.Cert, x509.ExtKeyUsageServerAuth, oldTrust...); err != nil {
				t.Errorf("a client with the old CA: %v", err)
			}
			client, err := ParseCerts([]byte(before["client-admin.crt"]))
			if err != nil {
				t.Fatal(err)
			}
			clients, err := LoadCA(f.ClientCA)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := clients.VerifyClient(client); err != nil {
				t.Errorf("a client with an old certificate: %v", err)
			}
			// A server that joins meanwhile gets the same, and takes it.
			sharedFiles, err := ReadShared(dir)
			if err != nil {
				t.Fatal(err)
			}
			second := filepath.Join(base, "second")
			if err := InstallShared(second, sharedFiles); err != nil {
				t.Fatal(err)
			}
			if got := hashOf(t, ensure(t, second, time.Now(), "b.example")); got != newHash {
				t.Errorf("another server has hash %s", got)
			}
			if key, err := os.ReadFile(f.Admin.Key); err != nil || string(key) != before["client-admin.key"] {
				t.Error("a leaf has another key")
			}

			if _, err := Rotate(dir, RotateOptions{Backup: backup + "2"}); err == nil ||
				!strings.Contains(err.Error(), "not finished") {
				t.Errorf("a second rotation: %v", err)
			}
			if _, err := Rotate(dir, RotateOptions{Finish: true, Backup: backup + "3"}); err != nil {
				t.Fatal(err)
			}
			f = ensure(t, dir, time.Now(), "a.example")
			if got := hashOf(t, f); got != newHash {
				t.Errorf("hash %s after the end, was %s", got, newHash)
			}
			err = verify(t, f.ServingAPIServer.Cert, x509.ExtKeyUsageServerAuth, oldTrust...)
			if (err == nil) != tc.sameHash {
				t.Errorf("a client with the old CA after the end: %v", err)
			}
			now := certsIn(t, f.ServerCA.Cert)
			if err := verify(t, f.ServingAPIServer.Cert, x509.ExtKeyUsageServerAuth, now[len(now)-1]); err != nil {
				t.Errorf("a client with the new CA: %v", err)
			}
			if clients, err = LoadCA(f.ClientCA); err != nil {
				t.Fatal(err)
			}
			if _, err := clients.VerifyClient(client); (err == nil) != (from != "" && tc.replaced == 1) {
				t.Errorf("an old client certificate after the end: %v", err)
			}
			for name := range snapshot(t, dir) {
				if strings.Contains(name, ".final.") {
					t.Errorf("%s is left", name)
				}
			}
			if _, err := Rotate(dir, RotateOptions{Finish: true, Backup: backup + "4"}); err == nil {
				t.Error("finished twice")
			}
		})
	}
}

// TestForcedRotation replaces CAs in the middle of another rotation: those of
// before that are given up.
func TestForcedRotation(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "tls")
	f := ensure(t, dir, time.Now(), "a")
	hashes := []string{hashOf(t, f)}
	roots := []*x509.Certificate{readCert(t, f.ServerCA.Cert)}
	for i, force := range []bool{false, true} {
		if _, err := Rotate(dir, RotateOptions{Force: force, Backup: filepath.Join(base, hashes[i])}); err != nil {
			t.Fatal(err)
		}
		f = ensure(t, dir, time.Now(), "a")
		hashes, roots = append(hashes, hashOf(t, f)), append(roots, readCert(t, f.ServerCA.Cert))
	}
	for i, root := range roots {
		if err := verify(t, f.ServingAPIServer.Cert, x509.ExtKeyUsageServerAuth, root); (err == nil) != (i > 0) {
			t.Errorf("those who trust CA %d: %v", i, err)
		}
	}
	if former, err := Former(f.FormerCAs); err != nil || strings.Join(former, " ") != strings.Join(hashes[:2], " ") {
		t.Errorf("former %v, %v; want %v", former, err, hashes[:2])
	}
}

func TestRotateRefuses(t *testing.T) {
	narrowRoot := issue(t, nil, nil)
	narrow := issue(t, &narrowRoot, func(c *x509.Certificate) { c.MaxPathLenZero = true })
	expired := issue(t, nil, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	good := issue(t, nil, nil)
	old := map[string][]byte{"server-ca.crt": append(narrow.pem(), narrowRoot.pem()...),
		"server-ca.key": narrow.keyPEM(t)}
	for _, tc := range []struct {
		name  string
		new   map[string][]byte
		force bool
		want  string // "" for success
	}{
		{"old CA may have none below it", nil, false, "--force"},
		{"the same with force", nil, true, ""},
		{"nothing given", map[string][]byte{"readme": nil}, false, "has no CA"},
		{"the one in use", old, false, "in use"},
		{"expired, even with force",
			map[string][]byte{"server-ca.crt": expired.pem(), "server-ca.key": expired.keyPEM(t)}, true, "expired"},
		{"without key", map[string][]byte{"server-ca.crt": good.pem()}, true, "server-ca.key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base := t.TempDir()
			dir := filepath.Join(base, "tls")
			put(t, dir, old)
			f := ensure(t, dir, time.Now(), "a")
			o := RotateOptions{Force: tc.force, Backup: filepath.Join(base, "backup")}
			if tc.new != nil {
				o.From = filepath.Join(base, "given")
				put(t, o.From, tc.new)
			}
			before := snapshot(t, base)
			_, err := Rotate(dir, o)
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				ensure(t, dir, time.Now(), "a")
				if now := certsIn(t, f.ServerCA.Cert); len(now) != 1 || bytes.Contains(encode(now...), narrow.pem()) {
					t.Errorf("%d certificates in the bundle", len(now))
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q in it", err, tc.want)
			}
			if after := snapshot(t, base); len(after) != len(before) || len(changed(before, after)) > 0 {
				t.Errorf("something was written: %v", changed(before, after))
			}
		})
	}
}
