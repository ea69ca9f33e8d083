package pki

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
)

// ofCluster are the CAs that all partitions of a cluster have in common. Each has its own
// for its datastore, and its own key for service accounts.
func (f *Files) ofCluster() []authorityFile { return f.authorities()[:3] }

// ReadCluster returns the content of what all partitions of a cluster have in common, by
// path below dir.
func ReadCluster(dir string) (map[string][]byte, error) {
	f := FilesIn(dir)
	var needed []string
	optional := []string{f.below(f.FormerCAs)}
	for _, ca := range f.ofCluster() {
		needed = append(needed, f.below(ca.pair.Cert), f.below(ca.pair.Key))
		optional = append(optional, f.below(finalFile(ca.pair)))
	}
	return readFiles(dir, needed, optional)
}

// InstallCluster makes the PKI of a new partition in dir: what ReadCluster returned in the
// home partition, and what the partition has for itself, all of it or none. A PKI that is
// there already must be of the same cluster. The parent of dir must exist.
func InstallCluster(dir string, files map[string][]byte) error {
	of := FilesIn(dir)
	for _, ca := range of.ofCluster() {
		for _, name := range []string{of.below(ca.pair.Cert), of.below(ca.pair.Key)} {
			if len(files[name]) == 0 {
				return fmt.Errorf("the file %s is missing in what the home partition sent", name)
			}
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return checkCluster(dir, files) // it is not empty
	}
	staging := dir + ".new"
	if err := os.RemoveAll(staging); err != nil {
		return err
	}
	f := FilesIn(staging)
	for name, data := range files {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return fmt.Errorf("the home partition sent the file %q", name)
		}
		if err := f.install(name, data); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(f.EtcdServerCA.Cert), 0o700); err != nil {
		return err
	}
	for _, ca := range f.authorities()[len(f.ofCluster()):] {
		a, err := makeCA(ca.name, time.Now())
		if err != nil {
			return fmt.Errorf("making %s: %w", ca.name, err)
		}
		if err := a.write(ca.pair); err != nil {
			return err
		}
	}
	if _, err := EnsureKey(f.ServiceAccountKey); err != nil {
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

func checkCluster(dir string, files map[string][]byte) error {
	have, err := ReadCluster(dir)
	if err == nil {
		f := FilesIn(dir)
		for _, ca := range f.ofCluster() {
			if name := f.below(ca.pair.Cert); !bytes.Equal(have[name], files[name]) {
				err = errors.Join(err, fmt.Errorf("%s differs", name))
			}
		}
	}
	if err != nil {
		return &problem.Precondition{What: "certificates in " + dir,
			Err: fmt.Errorf("they are not those of the cluster that the partition is to belong to: %w", err),
			Fix: "move the server directory " + filepath.Dir(dir) + " away if this machine shall begin a partition"}
	}
	return nil
}
