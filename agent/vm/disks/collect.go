package disks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
)

// settle is how long after Prepare an overlay may be made of a base disk whose
// image is gone by then.
const settle = 10 * time.Minute

// Collect removes base disks whose image is gone and that no overlay uses. It
// returns how many bytes that freed.
func (s *Store) Collect(ctx context.Context) (int64, error) {
	// What is listed first and gets an image then, stays.
	entries, err := os.ReadDir(filepath.Join(s.opts.Root, basesDir))
	if err != nil {
		return 0, err
	}
	chains, err := s.source.chains(ctx)
	if err != nil {
		return 0, fmt.Errorf("collecting disks: %w", err)
	}
	kept := map[string]bool{}
	for _, c := range chains {
		kept[digest.Digest(c).Encoded()] = true
	}
	var freed int64
	var errs []error
	for _, e := range entries {
		if kept[e.Name()] {
			continue
		}
		n, err := s.collect(ctx, e.Name())
		freed += n
		errs = append(errs, err)
	}
	return freed, errors.Join(errs...)
}

// collect removes one base disk unless it is in use.
func (s *Store) collect(ctx context.Context, encoded string) (int64, error) {
	unlock, err := s.lock(ctx, digest.NewDigestFromEncoded(digest.Canonical, encoded).String())
	if err != nil {
		return 0, err
	}
	defer unlock()
	dir := filepath.Join(s.opts.Root, basesDir, encoded)
	stat, err := os.Stat(dir)
	if err != nil || s.now().Sub(stat.ModTime()) < settle {
		return 0, err
	}
	used, err := inUse(dir)
	if err != nil || used {
		return 0, err
	}
	bytes, _, err := usage(dir)
	if err != nil {
		return 0, err
	}
	// Aside first, or a crash leaves half of it.
	temp, err := os.MkdirTemp(s.temp(), "")
	if err != nil {
		return 0, err
	}
	if err := os.Rename(dir, filepath.Join(temp, encoded)); err != nil {
		return 0, errors.Join(err, os.Remove(temp))
	}
	s.opts.Log.WithField("chain", encoded).Info("removed the base disk of an image that is gone")
	return int64(bytes), s.discard(temp)
}

// inUse reports whether an overlay of the base disk is left, and forgets those
// that are not.
func inUse(dir string) (bool, error) {
	refs, err := os.ReadDir(filepath.Join(dir, refsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	used := false
	for _, r := range refs {
		ref := filepath.Join(dir, refsDir, r.Name())
		path, err := os.ReadFile(ref)
		if err != nil {
			return false, err
		}
		if _, err := os.Lstat(string(path)); err == nil {
			used = true
		} else if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		} else if err := os.Remove(ref); err != nil {
			return false, err
		}
	}
	return used, nil
}

// Usage returns the bytes and files that base disks take.
func (s *Store) Usage() (bytes, files uint64, err error) {
	return usage(filepath.Join(s.opts.Root, basesDir))
}

func usage(dir string) (bytes, files uint64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // just collected
		}
		if err != nil {
			return err
		}
		i, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if st, ok := i.Sys().(*syscall.Stat_t); ok {
			bytes += uint64(st.Blocks) * 512
			files++
		}
		return nil
	})
	return bytes, files, err
}
