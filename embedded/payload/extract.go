//go:build linux

package payload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/payload/format"
)

// tmpPrefix begins the name of a directory that is being filled.
const tmpPrefix = ".tmp-"

// lockPoll is how often a held lock is tried again.
const lockPoll = 100 * time.Millisecond

// extract also removes superseded versions but for those of keep.
func extract(ctx context.Context, dataDir string, manifest, archive []byte, keep ...string) (*Payload, error) {
	dir, err := place(ctx, dataDir, manifest, archive, func(log *logrus.Entry, root, sum string) {
		prune(log, root, append(keep, sum)...)
	})
	if err != nil {
		return nil, err
	}
	return in(dir), nil
}

func extractTool(ctx context.Context, dataDir, name string, manifest, archive []byte) (string, error) {
	dir, err := place(ctx, dataDir, manifest, archive, func(*logrus.Entry, string, string) {})
	return filepath.Join(dir, "bin", name), err
}

// place makes what the manifest says available below dataDir and returns its directory. Then comes what
// is done before another process may look.
func place(
	ctx context.Context, dataDir string, manifest, archive []byte, then func(log *logrus.Entry, root, sum string),
) (dir string, err error) {
	m, err := format.ParseManifest(manifest)
	if err != nil {
		return "", err
	}
	dataDir, err = filepath.Abs(dataDir)
	if err != nil {
		return "", err
	}
	root := filepath.Join(dataDir, "data")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", precondition(dataDir, err)
	}
	if err := checkExec(dataDir, root); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, filepath.Join(root, ".lock"))
	if err != nil {
		return "", precondition(dataDir, err)
	}
	defer unlock()

	log := logrus.WithField("component", "payload")
	removeStale(log, root)
	dir = filepath.Join(root, m.ArchiveSHA256)
	if err := install(log, root, dir, m, archive); err != nil {
		return "", precondition(dataDir, err)
	}
	then(log, root, m.ArchiveSHA256)
	return dir, nil
}

// install makes dir hold what the manifest says.
func install(log *logrus.Entry, root, dir string, m *format.Manifest, archive []byte) error {
	var damaged []format.Entry
	switch fi, err := os.Lstat(dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !fi.IsDir():
		log.Warnf("%s is not a directory: extracting the carried programs again", dir)
		if err := os.Remove(dir); err != nil {
			return err
		}
	default:
		for _, e := range m.Entries {
			if err := verify(dir, e); err != nil {
				log.Warnf("Extracting %s again: %v", filepath.Join(dir, e.Path), err)
				damaged = append(damaged, e)
			}
		}
		if len(damaged) == 0 {
			return nil
		}
	}

	tmp, err := os.MkdirTemp(root, tmpPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := m.Unpack(archive,
		func(e format.Entry, data []byte) error { return writeFile(tmp, e, data) }); err != nil {
		return err
	}
	if damaged != nil {
		return repair(tmp, dir, damaged)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	return syncDir(root)
}

// repair moves files from a fresh directory over damaged ones. By rename, so
// that a process that runs from the old file keeps it.
func repair(fresh, dir string, damaged []format.Entry) error {
	for _, e := range damaged {
		target := filepath.Join(dir, filepath.FromSlash(e.Path))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if fi, err := os.Lstat(target); err == nil && fi.IsDir() {
			if err := os.RemoveAll(target); err != nil {
				return err
			}
		}
		if err := os.Rename(filepath.Join(fresh, filepath.FromSlash(e.Path)), target); err != nil {
			return err
		}
		if err := syncDir(filepath.Dir(target)); err != nil {
			return err
		}
	}
	return nil
}

// verify compares one extracted file with the manifest.
func verify(dir string, e format.Entry) error {
	name := filepath.Join(dir, filepath.FromSlash(e.Path))
	fi, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if fi.Mode() != e.Mode() {
		return fmt.Errorf("its mode is %s, want %s", fi.Mode(), e.Mode())
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != e.SHA256 {
		return fmt.Errorf("its sha256 is %s, want %s", got, e.SHA256)
	}
	return nil
}

// writeFile writes one file below dir and sees it onto the disk.
func writeFile(dir string, e format.Entry, data []byte) error {
	name := filepath.Join(dir, filepath.FromSlash(e.Path))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, e.Mode())
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		// The umask may have taken bits away.
		err = f.Chmod(e.Mode())
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lock takes the lock file, waiting for another process until ctx is done.
func lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for another a4s to release %s: %w", name, ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}

// removeStale removes what an interrupted extraction left. The caller holds
// the lock, so nobody is filling one.
func removeStale(log *logrus.Entry, root string) {
	entries, err := os.ReadDir(root)
	if err != nil {
		log.Warnf("Looking for interrupted extractions: %v", err)
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tmpPrefix) {
			if err := os.RemoveAll(filepath.Join(root, e.Name())); err != nil {
				log.Warnf("Removing an interrupted extraction: %v", err)
			}
		}
	}
}

// isErrno reports whether one of the errors is in err's chain.
func isErrno(err error, errnos ...syscall.Errno) bool {
	for _, e := range errnos {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
