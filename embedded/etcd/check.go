package etcd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
)

// fullCheckLimit is the size in bytes up to which every page of the backend
// is read before the start. A larger file would delay the start too long.
const fullCheckLimit = 256 << 20

// Check reads the backend and the write-ahead log the way etcd will, and
// returns a *problem.Precondition when they are damaged. etcd itself panics
// on several goroutines then. It changes nothing.
func (s *Server) Check(ctx context.Context) error {
	member := filepath.Join(s.opts.Dir, "member")
	backend := filepath.Join(member, "snap", "db")
	info, err := os.Stat(backend)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return s.unusable(err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(s.opts.Join) > 0 && !wal.Exist(filepath.Join(member, "wal")) {
		return nil // the rest of a try to join, which the next one replaces
	}
	if err := checkBackend(backend, info.Size() <= fullCheckLimit); err != nil {
		return s.unusable(fmt.Errorf("%s is damaged: %w", backend, err))
	}
	// etcd repairs a torn record by cutting the log off there. At the start of
	// a segment that would throw away what was acknowledged.
	if err := checkSegments(filepath.Join(member, "wal")); err != nil {
		return s.unusable(err)
	}
	// Verification from the zero snapshot reads whatever segments exist; a
	// gap because older segments were purged is not damage.
	_, err = wal.Verify(zap.NewNop(), filepath.Join(member, "wal"), &walpb.Snapshot{})
	switch {
	case err == nil, errors.Is(err, wal.ErrFileNotFound), errors.Is(err, wal.ErrSnapshotNotFound),
		errors.Is(err, wal.ErrSliceOutOfRange):
		return s.checkMembership()
	case errors.Is(err, wal.ErrCRCMismatch), errors.Is(err, wal.ErrMetadataConflict),
		errors.Is(err, wal.ErrDecoderNotFound):
		return s.unusable(fmt.Errorf("%s is damaged: %w", filepath.Join(member, "wal"), err))
	}
	s.opts.Log.WithError(err).Debug("the write-ahead log was not closed cleanly")
	return s.checkMembership()
}

// checkMembership refuses the data of a member that knows of its removal.
func (s *Server) checkMembership() error {
	disk, err := ReadDisk(s.opts.Dir)
	if err != nil {
		return s.unusable(err)
	}
	if disk != nil && disk.Removed && !s.opts.Reset {
		return s.removed()
	}
	return nil
}

// maxFirstRecord is far above the size of the checksum that a segment begins
// with.
const maxFirstRecord = 4096

// checkSegments reads the length of the first record of each segment of the
// write-ahead log. etcd gives a segment its name only when that is on disk.
func checkSegments(dir string) error {
	segments, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return err
	}
	for _, path := range segments {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		var frame [8]byte
		_, err = io.ReadFull(f, frame[:])
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s is damaged: %w", path, err)
		}
		// The highest byte holds flags.
		if n := binary.LittleEndian.Uint64(frame[:]) &^ (0xff << 56); n == 0 || n > maxFirstRecord {
			return fmt.Errorf("%s is damaged: it does not begin with a record", path)
		}
	}
	return nil
}

// checkBackend opens the bolt file read-only and walks it.
func checkBackend(path string, everyPage bool) (err error) {
	// A file that is shorter than it says faults in its memory map.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return db.View(func(tx *bbolt.Tx) error {
		if info.Size() < tx.Size() {
			return fmt.Errorf("it has %d bytes of %d", info.Size(), tx.Size())
		}
		if tx.Bucket([]byte("key")) == nil || tx.Bucket([]byte("meta")) == nil {
			return errors.New("it is not an etcd backend")
		}
		if !everyPage {
			return nil
		}
		// Not tx.Check: it works on goroutines of its own, whose panics
		// nobody could recover from.
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error { return readAll(b) })
	})
}

// readAll touches every page of a bucket.
func readAll(b *bbolt.Bucket) error {
	return b.ForEach(func(k, v []byte) error {
		if v == nil {
			if nested := b.Bucket(k); nested != nil {
				return readAll(nested)
			}
			return nil
		}
		_ = v[len(v):]
		return nil
	})
}
