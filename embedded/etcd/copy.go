package etcd

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// HasData reports whether a member has begun in a data directory.
func HasData(dir string) bool { return wal.Exist(filepath.Join(dir, "member", "wal")) }

// CopySnapshot writes what a member that does not run has in its data directory to
// a new file at path, in the form of a snapshot, and checks it. Nothing of the
// directory is changed: a newer etcd would. Of a member that was killed it has all
// but the writes of the last tenth of a second, which are in the log only.
func CopySnapshot(dir, path string) (Facts, error) {
	backend := filepath.Join(dir, "member", "snap", "db")
	if err := copyBackend(backend, path); err != nil {
		return Facts{}, fmt.Errorf("copying %s: %w", backend, err)
	}
	return CheckSnapshot(path)
}

func copyBackend(backend, path string) (err error) {
	db, err := bbolt.Open(backend, 0o600, &bbolt.Options{ReadOnly: true, Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	sum := sha256.New()
	if err := db.View(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(io.MultiWriter(out, sum))
		return err
	}); err != nil {
		return err
	}
	if _, err := out.Write(sum.Sum(nil)); err != nil {
		return err
	}
	return out.Sync()
}
