package pki

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
)

// shared are the files that all servers of a cluster have in common, as paths
// below the directory: the authorities and the service-account key.
func (f *Files) shared() []string { return append(f.caFiles(), f.below(f.ServiceAccountKey)) }

func (f *Files) caFiles() []string {
	var out []string
	for _, ca := range f.authorities() {
		out = append(out, f.below(ca.pair.Cert), f.below(ca.pair.Key))
	}
	return out
}

// history are the files that tell of CAs that were replaced. Mostly there are
// none.
func (f *Files) history() []string {
	out := []string{f.below(f.FormerCAs)}
	for _, ca := range f.authorities() {
		out = append(out, f.below(finalFile(ca.pair)))
	}
	return out
}

// below is a path of f relative to its directory.
func (f *Files) below(path string) string {
	return filepath.ToSlash(strings.TrimPrefix(path, f.Dir+string(filepath.Separator)))
}

// ReadShared returns the content of what all servers of a cluster have in
// common, by path below dir.
func ReadShared(dir string) (map[string][]byte, error) {
	f := FilesIn(dir)
	return readFiles(dir, f.shared(), f.history())
}

// ReadCAs returns the content of the CAs in dir and of what reports
// those that they replaced, by path below dir.
func ReadCAs(dir string) (map[string][]byte, error) {
	f := FilesIn(dir)
	return readFiles(dir, f.caFiles(), f.history())
}

// HashCAs identifies what ReadCAs returned.
func HashCAs(files map[string][]byte) string {
	f, sum := FilesIn("."), sha256.New()
	for _, ca := range f.authorities() {
		name := filepath.ToSlash(ca.pair.Cert)
		fmt.Fprintf(sum, "%s %d\n%s", name, len(files[name]), files[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// ServerCAHash is the hash in join tokens of servers with what ReadCAs
// returned.
func ServerCAHash(files map[string][]byte) (string, error) {
	return HashBundle(files[FilesIn(".").ServerCA.Cert])
}

func readFiles(dir string, needed, optional []string) (map[string][]byte, error) {
	out := map[string][]byte{}
	for i, name := range slices.Concat(needed, optional) {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if i >= len(needed) && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[name] = data
	}
	return out, nil
}

// take writes the CAs of another server, and what it says of former ones.
func (f *Files) take(files map[string][]byte) error {
	for _, name := range f.caFiles() {
		if len(files[name]) == 0 {
			return fmt.Errorf("the file %s is missing in what the other server sent", name)
		}
		if err := f.install(name, files[name]); err != nil {
			return err
		}
	}
	for _, ca := range f.authorities() {
		if err := os.Remove(finalFile(ca.pair)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := f.takeHistory(files); err != nil {
		return err
	}
	return f.writeSigners()
}

func (f *Files) takeHistory(files map[string][]byte) error {
	for _, name := range f.history() {
		data, there := files[name]
		switch {
		case !there:
		case name == f.below(f.FormerCAs):
			for _, hash := range strings.Fields(string(data)) {
				if err := AddFormer(f.FormerCAs, hash); err != nil {
					return err
				}
			}
		default:
			if err := f.install(name, data); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Files) install(name string, data []byte) error {
	path := filepath.Join(f.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	mode := os.FileMode(0o600)
	if filepath.Ext(name) == ".crt" {
		mode = 0o644
	}
	return atomicfile.Write(path, data, mode)
}

// InstallShared puts the files of another server's ReadShared into dir, all of
// them or none. A PKI that is there already must be of the same cluster. The
// parent of dir must exist.
func InstallShared(dir string, files map[string][]byte) error {
	names := FilesIn(dir).shared()
	for _, name := range names {
		if len(files[name]) == 0 {
			return fmt.Errorf("the file %s is missing in what the other server sent", name)
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		if err := checkShared(dir, names, files); err != nil { // it is not empty
			return err
		}
		return FilesIn(dir).takeHistory(files)
	}
	staging := dir + ".new"
	if err := os.RemoveAll(staging); err != nil {
		return err
	}
	f := FilesIn(staging)
	for _, name := range names {
		if err := f.install(name, files[name]); err != nil {
			return err
		}
	}
	if err := f.takeHistory(files); err != nil {
		return err
	}
	// They tell these files from CAs that somebody gives for a new cluster.
	if err := f.writeSigners(); err != nil {
		return err
	}
	if err := os.Rename(staging, dir); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(dir))
}

func checkShared(dir string, names []string, files map[string][]byte) error {
	have, err := ReadShared(dir)
	if err == nil {
		for _, name := range names {
			if !bytes.Equal(have[name], files[name]) {
				err = errors.Join(err, fmt.Errorf("%s differs", name))
			}
		}
	}
	if err != nil {
		return &problem.Precondition{What: "certificates in " + dir,
			Err: fmt.Errorf("they are not those of the cluster to join: %w", err),
			Fix: "move the server directory " + filepath.Dir(dir) + " away if this machine shall join that cluster"}
	}
	return nil
}
