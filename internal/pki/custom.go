package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
)

// ensureAuthorities makes the CAs and the service-account key, but for those
// that somebody put there, in a directory of their own and renames it, so that
// a crash on first start leaves either none or all of them. Later a missing one
// is therefore always a loss.
func ensureAuthorities(f *Files, opts Options) error {
	given := false
	if err := os.Remove(f.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		used, err := f.used(opts)
		if err != nil {
			return err
		}
		if used {
			return os.Chmod(f.Dir, 0o700)
		}
		given = true
	}
	found, err := f.given(opts.Now())
	if err != nil {
		return err
	}
	if err := checkServiceKey(f.ServiceAccountKey); err != nil {
		return err
	}
	staging := f.Dir + ".new"
	if err := os.RemoveAll(staging); err != nil {
		return err
	}
	s := FilesIn(staging)
	if given {
		if err := copyTree(f.Dir, staging); err != nil {
			return fmt.Errorf("copying %s: %w", f.Dir, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(s.EtcdServerCA.Cert), 0o700); err != nil {
		return err
	}
	for _, ca := range s.authorities() {
		a := found[ca.name]
		if a == nil {
			if a, err = makeCA(ca.name, opts.Now()); err != nil {
				return fmt.Errorf("making %s: %w", ca.name, err)
			}
		} else {
			opts.Log.WithField("subject", a.certs[0].Subject.String()).
				Infof("using the given certificate authority %s", ca.name)
		}
		if err := a.write(ca.pair); err != nil {
			return err
		}
	}
	if _, err := EnsureKey(s.ServiceAccountKey); err != nil {
		return err
	}
	if err := s.writeSigners(); err != nil {
		return err
	}
	if given {
		if err := exchange(staging, f.Dir); err != nil {
			return fmt.Errorf("replacing %s: %w", f.Dir, err)
		}
		if err := os.RemoveAll(staging); err != nil {
			return err
		}
	} else if err := os.Rename(staging, f.Dir); err != nil {
		return err
	}
	opts.Log.WithField("dir", f.Dir).Info("made the certificate authorities of a new cluster")
	return atomicfile.SyncDir(filepath.Dir(f.Dir))
}

// used reports whether a server has started with these files before: only a
// server makes leaf certificates and the files for signers.
func (f *Files) used(opts Options) (bool, error) {
	files := []string{f.ServerCASigner, f.ClientCASigner}
	for _, l := range f.leaves(opts) {
		files = append(files, l.pair.Cert, l.pair.Key)
	}
	for _, file := range files {
		there, err := exists(file)
		if there || err != nil {
			return there, err
		}
	}
	return false, nil
}

// given returns the CAs that somebody made elsewhere and put at the places of
// f, by their names, after strict checks.
func (f *Files) given(now time.Time) (map[string]*CA, error) {
	out := map[string]*CA{}
	for _, ca := range f.authorities() {
		cert, err := exists(ca.pair.Cert)
		if err != nil {
			return nil, err
		}
		key, err := exists(ca.pair.Key)
		switch {
		case err != nil:
			return nil, err
		case !cert && !key:
			continue
		case !cert:
			return nil, badGiven(ca.pair.Cert, fmt.Errorf("does not exist, although its key %s does", ca.pair.Key),
				"put the CA certificate there, or remove the key to have a CA made")
		case !key:
			return nil, badGiven(ca.pair.Key, fmt.Errorf("does not exist, although its certificate %s does",
				ca.pair.Cert), "put the key of the CA there, or remove the certificate to have a CA made")
		}
		a, err := checkCA(ca.pair, now)
		if err != nil {
			return nil, err
		}
		if ca.name != serverCAName {
			// Who verifies clients trusts this CA alone. With the root, all
			// that is signed below it anywhere could pass: certificates of
			// the client CA would open the datastore.
			a.certs = a.certs[:1]
		}
		a.pem = encode(a.certs...)
		out[ca.name] = a
	}
	return out, nil
}

func badGiven(file string, err error, fix string) error {
	return &problem.Precondition{What: "certificate authority file " + file, Err: err, Fix: fix}
}

// checkCA reads a CA that was made elsewhere. Its certificates come in
// the order in which one signed the other, the root last.
func checkCA(p Pair, now time.Time) (*CA, error) {
	data, err := os.ReadFile(p.Cert)
	if err != nil {
		return nil, badGiven(p.Cert, err, "make the file readable")
	}
	const wantCerts = "write the certificate of the CA in PEM there, followed by those above it, up to the root"
	certs, err := ParseCerts(data)
	if err != nil {
		return nil, badGiven(p.Cert, err, wantCerts)
	}
	if data, err = os.ReadFile(p.Key); err != nil {
		return nil, badGiven(p.Key, err, "make the file readable")
	}
	key, err := ParseKey(data)
	if err == nil {
		err = checkKey(key)
	}
	if err != nil {
		return nil, badGiven(p.Key, err,
			"write the key of the CA in PEM there: EC, or RSA with 2048 bits or more, without a passphrase")
	}
	at := slices.IndexFunc(certs, func(c *x509.Certificate) bool { return samePublicKey(c.PublicKey, key.Public()) })
	if at != 0 {
		err := fmt.Errorf("does not belong to the first certificate of %s", p.Cert)
		if at > 0 {
			err = fmt.Errorf("belongs to certificate %d of %s, not to the first one", at+1, p.Cert)
		}
		return nil, badGiven(p.Key, err,
			"put the key there that belongs to the certificate, and the certificate of the signing CA first")
	}
	for _, c := range certs {
		name := fmt.Sprintf("%q", c.Subject.String())
		switch {
		case !c.BasicConstraintsValid || !c.IsCA:
			return nil, badGiven(p.Cert, errors.New(name+" is not the certificate of a CA"),
				"issue it with basicConstraints=critical,CA:TRUE")
		case c.KeyUsage&x509.KeyUsageCertSign == 0:
			return nil, badGiven(p.Cert, errors.New(name+" may not sign certificates"),
				"issue it with keyUsage=critical,keyCertSign,cRLSign,digitalSignature")
		case now.After(c.NotAfter):
			return nil, badGiven(p.Cert,
				fmt.Errorf("%s expired on %s", name, c.NotAfter.Format(time.RFC3339)), "renew it")
		case now.Before(c.NotBefore):
			return nil, badGiven(p.Cert, fmt.Errorf("%s is not valid before %s", name,
				c.NotBefore.Format(time.RFC3339)), "check the clock of this machine")
		}
	}
	for i, c := range certs {
		switch last := i == len(certs)-1; {
		case last && !SelfSigned(c):
			return nil, badGiven(p.Cert, fmt.Errorf("ends with %q, which is not a root but signed by %q",
				c.Subject.String(), c.Issuer.String()), "append the certificates above it, up to the root")
		case !last && c.CheckSignatureFrom(certs[i+1]) != nil:
			return nil, badGiven(p.Cert, fmt.Errorf("%q is not signed by %q, which follows it", c.Subject.String(),
				certs[i+1].Subject.String()), wantCerts)
		}
	}
	a := &CA{certs: certs, pem: encode(certs...), key: key,
		now: func() time.Time { return now }, life: time.Hour}
	// What the certificates say about themselves may not fit together.
	if err := a.prove(a.certs[len(certs)-1:]); err != nil {
		return nil, badGiven(p.Cert, fmt.Errorf("what it signs is not valid: %w", err),
			"issue the CA without limits of path length, names or purposes that exclude a4s")
	}
	return a, nil
}

// prove signs certificates and verifies that they are good for those who trust
// these roots alone.
func (a *CA) prove(roots []*x509.Certificate) error {
	key, _, err := NewKey()
	if err != nil {
		return err
	}
	signed, err := a.WithLife(time.Hour).Sign(key.Public(),
		Leaf{CommonName: "a4s", DNSNames: []string{"kubernetes.default.svc"}, Client: true, Server: true})
	if err != nil {
		return err
	}
	chain, err := ParseCerts(signed)
	if err != nil {
		return err
	}
	pool, inter := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range roots {
		pool.AddCert(c)
	}
	for _, c := range chain[1:] {
		inter.AddCert(c)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if _, err := chain[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: inter, CurrentTime: a.now(),
			KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			return err
		}
	}
	return nil
}

func checkKey(key crypto.Signer) error {
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		return nil
	case *rsa.PrivateKey:
		if n := k.N.BitLen(); n < minRSABits {
			return fmt.Errorf("is an RSA key of %d bits", n)
		}
		return nil
	}
	return fmt.Errorf("is a key of type %T", key)
}

func checkServiceKey(path string) error {
	key, err := loadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = checkKey(key)
	}
	if err != nil {
		return &problem.Precondition{What: "service-account key " + path, Err: err, Fix: "write a private key in " +
			"PEM there: EC, or RSA with 2048 bits or more, without a passphrase; or remove it to have one made"}
	}
	return nil
}

// write puts certificates and key into their files.
func (a *CA) write(p Pair) error {
	if err := os.MkdirAll(filepath.Dir(p.Cert), 0o700); err != nil {
		return err
	}
	key, err := encodeKey(a.key)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(p.Key, key, 0o600); err != nil {
		return err
	}
	return atomicfile.Write(p.Cert, a.pem, 0o644)
}

// writeSigners brings the files up to date that hold one certificate of a CA.
func (f *Files) writeSigners() error {
	for file, ca := range map[string]Pair{f.ServerCASigner: f.ServerCA, f.ClientCASigner: f.ClientCA} {
		cert, err := ReadCert(ca.Cert)
		if err != nil {
			return &problem.Precondition{What: "certificate authority file " + ca.Cert, Err: err, Fix: fixCA}
		}
		want := encode(cert)
		if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, want) {
			continue
		}
		if err := atomicfile.Write(file, want, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Former returns the hashes in a file of CAs that were replaced.
func Former(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(data)), err
}

// AddFormer adds a hash to a file of CAs that were replaced.
func AddFormer(path, hash string) error {
	have, err := Former(path)
	if err != nil || slices.Contains(have, hash) {
		return err
	}
	return atomicfile.Write(path, []byte(strings.Join(append(have, hash), "\n")+"\n"), 0o644)
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// copyTree copies files, directories and symbolic links.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case d.Type() == fs.ModeSymlink:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a directory", path)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return atomicfile.Write(target, data, info.Mode().Perm())
	})
}

// exchange swaps two directories. At every moment there is one at each place,
// except on file systems that cannot.
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	aside := b + ".old"
	if err := os.Rename(b, aside); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		return errors.Join(err, os.Rename(aside, b))
	}
	return os.Rename(aside, a)
}
