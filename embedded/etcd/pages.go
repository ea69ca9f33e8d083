package etcd

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"golang.org/x/sys/unix"
)

// ReleasePages has the kernel take the pages of the datastore's file out of the
// memory of this process. They stay in the kernel's cache for as long as it has
// room, and come back when they are read: every compaction reads all of them.
// Without a running member it does nothing. It may be called at any time.
func (s *Server) ReleasePages() error {
	e := s.running.Load()
	if e == nil {
		return nil
	}
	file, err := filepath.EvalSymlinks(datadir.ToBackendFileName(s.opts.Dir))
	if err != nil {
		return fmt.Errorf("finding the datastore's file: %w", err)
	}
	held := e.Server.Backend()
	return whileMapped(held, func() bool {
		select {
		case <-e.Server.StoppingNotify():
			return false
		default:
			return e.Server.Backend() == held
		}
	}, func() error { return releasePages(file) })
}

// whileMapped calls f while the file of a backend cannot be unmapped, if it is in
// use. A backend unmaps its file when nobody reads it: when it closes, and when it
// maps it anew. Until it is told to close somebody always reads, and what ends
// that waits for this lock.
func whileMapped(b backend.Backend, inUse func() bool, f func() error) error {
	tx := b.ReadTx()
	tx.RLock()
	defer tx.RUnlock()
	if !inUse() {
		return nil
	}
	return f()
}

// releasePages is for a file that is mapped shared and that nobody writes to by
// its mapping. Other memory would lose what it holds.
func releasePages(file string) error {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close() //nolint:errcheck // it was only read
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		if !strings.HasSuffix(lines.Text(), " "+file) {
			continue
		}
		var from, to uintptr
		var access string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &access); err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		if access != "r--s" {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("releasing the pages of %s: %w", file, errno)
		}
	}
	return lines.Err()
}
