package etcd

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
)

// mapped says how much of a file is resident in this process, and whether the
// file is mapped at all.
func mapped(t *testing.T, file string) (kib int, is bool) {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	here := false
	for lines := bufio.NewScanner(bytes.NewReader(smaps)); lines.Scan(); {
		line := lines.Text()
		if first, _, _ := strings.Cut(line, " "); !strings.HasSuffix(first, ":") {
			here = strings.HasSuffix(line, " "+file)
			is = is || here
		}
		var n int
		if _, err := fmt.Sscanf(line, "Rss: %d kB", &n); err == nil && here {
			kib += n
		}
	}
	return kib, is
}

// filled is a backend with a MiB in it, and its file.
func filled(t *testing.T) (b backend.Backend, file string, read func() int) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "the db") // also with a space in it
	b = backend.NewDefaultBackend(zap.NewNop(), file)
	tx := b.BatchTx()
	tx.Lock()
	tx.UnsafeCreateBucket(schema.Key)
	for i := range 1024 {
		tx.UnsafePut(schema.Key, fmt.Appendf(nil, "%04d", i), bytes.Repeat([]byte("x"), 1024))
	}
	tx.Unlock()
	b.ForceCommit()
	return b, file, func() (n int) {
		tx := b.ReadTx()
		tx.RLock()
		defer tx.RUnlock()
		_ = tx.UnsafeForEach(schema.Key, func(_, v []byte) error {
			n += bytes.Count(v, []byte("x"))
			return nil
		})
		return n
	}
}

func TestPagesOfTheDatastoreAreReleased(t *testing.T) {
	b, file, read := filled(t)
	defer b.Close() //nolint:errcheck // it is gone with the test
	always := func() bool { return true }
	for range 2 {
		if n := read(); n != 1<<20 {
			t.Fatalf("read %d bytes", n)
		}
		if kib, _ := mapped(t, file); kib < 1024 {
			t.Fatalf("%d KiB are resident after all was read", kib)
		}
		if err := whileMapped(b, always, func() error { return releasePages(file) }); err != nil {
			t.Fatal(err)
		}
		if kib, _ := mapped(t, file); kib > 256 {
			t.Errorf("%d KiB are resident after they were released", kib)
		}
	}
	if err := whileMapped(b, func() bool { return false }, func() error { t.Error("of a file that is not in use"); return nil }); err != nil {
		t.Error(err)
	}
}

// What lies at the place of a file that is not mapped any more is not the
// datastore's.
func TestPagesAreReleasedBeforeTheDatastoreCloses(t *testing.T) {
	b, file, _ := filled(t)
	closed := make(chan error, 1)
	err := whileMapped(b, func() bool { return true }, func() error {
		go func() { closed <- b.Close() }()
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
			if _, is := mapped(t, file); !is {
				t.Fatal("it closed meanwhile")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, is := mapped(t, file); is {
		t.Error("it is still mapped, the test sees nothing")
	}
}

func TestPagesOfAMemberThatDoesNotRun(t *testing.T) {
	if err := (&Server{}).ReleasePages(); err != nil {
		t.Error(err)
	}
}
