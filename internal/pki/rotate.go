package pki

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
)

// RotateOptions says how CAs are replaced.
type RotateOptions struct {
	// From is a directory with new CAs, in the layout of FilesIn. Those that
	// it lacks stay. Empty means to replace all by new self-signed ones.
	From string
	// Force goes on where nodes and clients of the old CAs will not accept
	// the new ones, or a rotation is not finished.
	Force bool
	// Finish ends the trust in the CAs that were replaced before.
	Finish bool
	// Backup is where the replaced directory goes. It must not exist, and be
	// on the same file system.
	Backup string
	// Now replaces the clock; nil means time.Now.
	Now func() time.Time
}

// Rotation is what a rotation did.
type Rotation struct {
	// Replaced are the names of the CAs.
	Replaced []string
	// Backup is where the former directory is.
	Backup string
}

// Rotate replaces the CAs in dir while no server uses it. The new ones sign
// from the next start on. Until a call with Finish, the old ones are trusted,
// too, and the new ones are signed by them as well, so that those who know the
// old ones alone accept what the new ones sign.
//
// Everything is made and checked in a copy, which then takes the place of dir.
func Rotate(dir string, o RotateOptions) (*Rotation, error) {
	staging, r, err := stageRotation(dir, o)
	if err != nil {
		return nil, err
	}
	r.Backup = o.Backup
	return r, swap(staging, dir, o.Backup)
}

// Successors makes and checks what Rotate would put into dir, for servers that
// Take it, and leaves dir as it is. A server may use it.
func Successors(dir string, o RotateOptions) (*Rotation, map[string][]byte, error) {
	staging, r, err := stageRotation(dir, o)
	if err != nil {
		return nil, nil, err
	}
	files, err := ReadCAs(staging)
	return r, files, errors.Join(err, os.RemoveAll(staging))
}

// Take puts what Successors of any server with the same CAs returned into dir,
// while no server uses it, as Rotate does. Former hashes are kept.
func Take(dir, backup string, files map[string][]byte, now time.Time) error {
	return stage(dir, now, func(s *Files) error { return s.take(files) }, func(staging string) error {
		return swap(staging, dir, backup)
	})
}

func stageRotation(dir string, o RotateOptions) (staging string, r *Rotation, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	f := FilesIn(dir)
	if _, err := os.ReadFile(f.ServerCA.Cert); err != nil {
		return "", nil, &problem.Precondition{What: "certificate authority file " + f.ServerCA.Cert, Err: err,
			Fix: "run the command on a machine with a server, with its --data-dir"}
	}
	pending, err := f.pending()
	if err != nil {
		return "", nil, err
	}
	var bundles map[string]*CA
	switch {
	case o.Finish && len(pending) == 0:
		return "", nil, &problem.Precondition{
			What: "certificate authorities in " + dir,
			Err:  errors.New("none was replaced, so there is nothing to finish"),
			Fix:  "run the command without --finish first",
		}
	case o.Finish:
		bundles = map[string]*CA{}
	case len(pending) > 0 && !o.Force:
		return "", nil, &problem.Precondition{What: "certificate authorities in " + dir,
			Err: fmt.Errorf("the replacement of %s is not finished", strings.Join(pending, ", ")),
			Fix: "restart all agents and finish it with --finish, or give up at once, with --force, " +
				"those that still need the CAs before"}
	default:
		if bundles, err = f.successors(o); err != nil {
			return "", nil, err
		}
	}
	err = stage(dir, o.Now(), func(s *Files) (err error) {
		r, err = s.replace(bundles, o.Finish)
		return err
	}, func(dir string) error { staging = dir; return nil })
	return staging, r, err
}

// stage changes a copy of dir, checks it, and gives it to use.
func stage(dir string, now time.Time, change func(*Files) error, use func(staging string) error) error {
	old, err := os.ReadFile(FilesIn(dir).ServerCA.Cert)
	if err != nil {
		return err
	}
	staging := dir + ".rotating"
	if err := os.RemoveAll(staging); err != nil {
		return err
	}
	if err := copyTree(dir, staging); err != nil {
		return errors.Join(fmt.Errorf("copying %s: %w", dir, err), os.RemoveAll(staging))
	}
	s := FilesIn(staging)
	if err := change(s); err != nil {
		return errors.Join(err, os.RemoveAll(staging))
	}
	if err := s.settle(old, now); err != nil {
		return errors.Join(err, os.RemoveAll(staging))
	}
	return use(staging)
}

// swap lets staging take the place of dir, which goes to backup.
func swap(staging, dir, backup string) error {
	if err := exchange(staging, dir); err != nil {
		return errors.Join(fmt.Errorf("replacing %s: %w", dir, err), os.RemoveAll(staging))
	}
	if err := os.Rename(staging, backup); err != nil {
		return fmt.Errorf("the certificate authorities were replaced, but the former files are still in %s: %w",
			staging, err)
	}
	return atomicfile.SyncDir(filepath.Dir(dir))
}

// finalFile holds what is left of a CA's bundle when the rotation is finished.
func finalFile(p Pair) string { return strings.TrimSuffix(p.Cert, ".crt") + ".final.crt" }

// pending are the names of the CAs whose rotation is not finished.
func (f *Files) pending() ([]string, error) {
	var out []string
	for _, ca := range f.authorities() {
		there, err := exists(finalFile(ca.pair))
		if err != nil {
			return nil, err
		}
		if there {
			out = append(out, ca.name)
		}
	}
	return out, nil
}

// successors makes or reads the new CAs. Their bundles also have their own
// certificates once more, signed by the CAs that they follow, and those.
func (f *Files) successors(o RotateOptions) (map[string]*CA, error) {
	given := map[string]*CA{}
	if o.From != "" {
		var err error
		if given, err = FilesIn(o.From).given(o.Now()); err != nil {
			return nil, err
		}
		if len(given) == 0 {
			return nil, &problem.Input{Source: "--path", Value: o.From, Err: errors.New("has no CA in it"),
				Want: "a directory with files such as server-ca.crt and server-ca.key, " +
					"named as in the directory server/tls"}
		}
	}
	out := map[string]*CA{}
	for _, ca := range f.authorities() {
		next := given[ca.name]
		if o.From != "" && next == nil {
			continue
		}
		if next == nil {
			var err error
			if next, err = makeCA(ca.name, o.Now()); err != nil {
				return nil, fmt.Errorf("making %s: %w", ca.name, err)
			}
		}
		old, err := loadCA(ca.pair, o.Now)
		if err == nil && old.certs[0].Equal(next.certs[0]) {
			return nil, &problem.Input{Source: "--path", Value: o.From, Err: fmt.Errorf("its %s is the one in use",
				ca.name), Want: "new CAs; files of CAs that shall stay can be removed"}
		}
		if err == nil {
			err = next.follow(old, ca.pair, o.Now())
		}
		if err != nil && !o.Force {
			return nil, &problem.Precondition{What: "certificate authority file " + ca.pair.Cert,
				Err: fmt.Errorf("cannot vouch for the new CA: %w", err),
				Fix: "with --force the old CA ends at once: all nodes have to join again with the new token"}
		}
		out[ca.name] = next
	}
	return out, nil
}

// follow adds the old CA to the bundle of the new one a, in a way that those
// who trust either accept what a signs.
func (a *CA) follow(old *CA, p Pair, now time.Time) error {
	before := old.certs
	if data, err := os.ReadFile(finalFile(p)); err == nil { // --force in the middle of a rotation
		if before, err = ParseCerts(data); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ca := a.certs[0]
	end := ca.NotAfter
	if before[0].NotAfter.Before(end) {
		end = before[0].NotAfter
	}
	der, err := signCert(&x509.Certificate{
		RawSubject: ca.RawSubject, SubjectKeyId: ca.SubjectKeyId,
		NotBefore: now.Add(-clockSkew), NotAfter: end,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true, IsCA: true,
	}, before[0], ca.PublicKey, old.key)
	if err != nil {
		return err
	}
	cross, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	both := *a
	both.certs = slices.Clone(a.certs)
	for _, c := range append([]*x509.Certificate{cross}, before...) {
		if !slices.ContainsFunc(both.certs, c.Equal) {
			both.certs = append(both.certs, c)
		}
	}
	if err := both.prove(before[len(before)-1:]); err != nil {
		return fmt.Errorf("what the new one signs is not valid for those who trust the old one: %w", err)
	}
	a.certs = both.certs
	return nil
}

// replace writes new CAs, or ends the trust in the old ones. It works in a
// copy, so it may stop at any moment.
func (f *Files) replace(bundles map[string]*CA, finish bool) (*Rotation, error) {
	r := &Rotation{}
	for _, ca := range f.authorities() {
		final := finalFile(ca.pair)
		if finish {
			err := os.Rename(final, ca.pair.Cert)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			r.Replaced = append(r.Replaced, ca.name)
			continue
		}
		next := bundles[ca.name]
		if next == nil {
			continue
		}
		r.Replaced = append(r.Replaced, ca.name)
		alone := next.pem
		next.pem = encode(next.certs...)
		if err := next.write(ca.pair); err != nil {
			return nil, err
		}
		if bytes.Equal(alone, next.pem) { // the old one could not vouch for it
			if err := os.Remove(final); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		if err := atomicfile.Write(final, alone, 0o644); err != nil {
			return nil, err
		}
	}
	return r, f.writeSigners()
}

// settle notes the hash of the server CA before, and checks that a server can
// start with the files.
func (f *Files) settle(old []byte, now time.Time) error {
	for _, ca := range f.authorities() {
		if _, err := loadCA(ca.pair, func() time.Time { return now }); err != nil {
			return err
		}
	}
	bundle, err := os.ReadFile(f.ServerCA.Cert)
	if err != nil {
		return err
	}
	hash, err := HashBundle(bundle)
	if err != nil {
		return err
	}
	former, err := HashBundle(old)
	if err != nil || former == hash {
		return nil //nolint:nilerr // a damaged one, replaced by force, has no tokens
	}
	return AddFormer(f.FormerCAs, former)
}
