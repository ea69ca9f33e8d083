package images

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

// fakeStore takes archives whose content is "image NAME DIGEST".
type fakeStore struct {
	down   bool
	loaded []string          // bases of archives, also of broken ones
	images map[string]string // digests by name
	pulled atomic.Pointer[[]string]
	// block has loads and pulls wait for the end of their context.
	block  bool
	closed bool
}

func (s *fakeStore) answers(context.Context) bool { return !s.down }

func (s *fakeStore) load(ctx context.Context, path string) (map[string]string, error) {
	s.loaded = append(s.loaded, filepath.Base(path))
	if s.block {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(string(content))
	if len(words) != 3 {
		return nil, errors.New("broken archive")
	}
	s.images[words[1]] = words[2]
	return map[string]string{words[1]: words[2]}, nil
}

func (s *fakeStore) has(_ context.Context, name, digest string) bool { return s.images[name] == digest }

func (s *fakeStore) id(_ context.Context, name string) (string, error) {
	if digest, ok := s.images[name]; ok {
		return "id-" + digest, nil
	}
	return "", nil
}

func (s *fakeStore) pull(ctx context.Context, name string) error {
	before := s.pulled.Load()
	now := []string{name}
	if before != nil {
		now = append(slices.Clone(*before), name)
	}
	s.pulled.Store(&now)
	if s.block {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (s *fakeStore) close() error { s.closed = true; return nil }

// world is a node with a directory of images.
type world struct {
	*importer
	t     *testing.T
	store *fakeStore
	hook  *test.Hook
	told  map[string]string
	// refuse is why Imported fails.
	refuse error
	pulls  chan []file
}

func newWorld(t *testing.T) *world {
	t.Helper()
	logger, hook := test.NewNullLogger()
	root := t.TempDir()
	w := &world{t: t, store: &fakeStore{images: map[string]string{}}, hook: hook, told: map[string]string{},
		pulls: make(chan []file, 1)}
	w.importer = newImporter(Options{Dir: Dir(root), StateFile: StateFile(root), Log: logrus.NewEntry(logger),
		Imported: func(ids map[string]string) error {
			if w.refuse == nil {
				maps.Copy(w.told, ids)
			}
			return w.refuse
		}}, func() (store, error) { return w.store, nil })
	w.importer.store = w.store
	if err := os.MkdirAll(filepath.Dir(w.Dir), 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

// write makes a file, whose time no other has.
func (w *world) write(name, content string) {
	w.t.Helper()
	path := filepath.Join(w.Dir, name)
	if err := errors.Join(os.MkdirAll(w.Dir, 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.Dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) start() {
	w.t.Helper()
	if err := w.importAll(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) rounds(n int) {
	for range n {
		w.round(w.t.Context(), w.pulls)
	}
}

// loads checks which archives were loaded since it was asked last.
func (w *world) loads(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.store.loaded, want) {
		w.t.Errorf("loaded %v, want %v", w.store.loaded, want)
	}
	w.store.loaded = nil
}

// errors are how many lines of the log about a file are errors or warnings.
func (w *world) errors(name string) (n int) {
	for _, e := range w.hook.AllEntries() {
		if e.Data["file"] == filepath.Join(w.Dir, name) && e.Level <= logrus.WarnLevel {
			n++
		}
	}
	return n
}

// TestArchivesThatComeLater: an archive is imported when it is at rest, everybody may use its
// images, and it is remembered.
func TestArchivesThatComeLater(t *testing.T) {
	w := newWorld(t)
	w.start() // without a directory
	w.rounds(2)
	w.loads()
	w.write("a.tar", "image a")
	w.rounds(1)
	w.write("a.tar", "image a 1") // it is still written
	w.rounds(1)
	w.loads()
	w.rounds(1)
	w.loads("a.tar")
	w.rounds(3)
	w.loads()
	w.write("b.tar", "image b 2")
	w.write("a.tar", "image a 10")
	w.rounds(2)
	w.loads("a.tar", "b.tar")
	if want := map[string]string{"a": "id-10", "b": "id-2"}; !maps.Equal(w.told, want) {
		t.Errorf("told of %v, want %v", w.told, want)
	}
	// Another start goes by what was remembered.
	next := newWorld(t)
	next.Dir, next.StateFile, next.store.images = w.Dir, w.StateFile, w.store.images
	next.state = readState(w.StateFile, w.Log)
	next.start()
	next.rounds(2)
	next.loads()
	if !maps.Equal(next.told, map[string]string{"a": "id-10", "b": "id-2"}) {
		t.Errorf("the next start told of %v", next.told)
	}
	// What is gone is forgotten, and imported again when it is there again.
	next.remove("a.tar")
	next.rounds(1)
	if kept := readState(w.StateFile, w.Log); len(kept) != 1 {
		t.Errorf("remembered %v", kept)
	}
	next.write("a.tar", "image a 10")
	next.rounds(2)
	next.loads("a.tar")
}

// TestBrokenArchivesAreSaidOnce: until they change, also when they were broken at the start.
func TestBrokenArchivesAreSaidOnce(t *testing.T) {
	w := newWorld(t)
	w.write("a.tar", "half")
	w.write("README.md", "x")
	w.start()
	w.rounds(4)
	w.loads("a.tar")
	w.write("b.tar", "half")
	w.rounds(4)
	w.loads("b.tar")
	for _, name := range []string{"a.tar", "b.tar", "README.md"} {
		if n := w.errors(name); n != 1 {
			t.Errorf("%d lines about %s, want 1", n, name)
		}
	}
	w.write("a.tar", "image a 1")
	w.write("b.tar", "half of an archive")
	w.rounds(4)
	w.loads("a.tar", "b.tar")
	if w.errors("a.tar") != 1 || w.errors("b.tar") != 2 {
		t.Errorf("%d and %d lines, want 1 and 2", w.errors("a.tar"), w.errors("b.tar"))
	}
	if !maps.Equal(w.told, map[string]string{"a": "id-1"}) {
		t.Errorf("told of %v", w.told)
	}
}

// TestArchivesWaitForContainerd: one that is not there is no fault of an archive.
func TestArchivesWaitForContainerd(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.store.down = true
	w.write("a.tar", "image a 1")
	w.rounds(3)
	w.loads()
	w.store.down = false
	w.rounds(1)
	w.loads("a.tar")
	if w.errors("a.tar") != 0 {
		t.Error("it was said to be broken")
	}
}

// TestWhatCannotBeRecordedIsToldAgain: also when the archive is gone by then. At the start it is
// an error.
func TestWhatCannotBeRecordedIsToldAgain(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.refuse = errors.New("no space left")
	w.write("a.tar", "image a 1")
	w.rounds(4)
	w.remove("a.tar")
	w.rounds(2)
	said := 0
	for _, e := range w.hook.AllEntries() {
		if err, ok := e.Data[logrus.ErrorKey].(error); ok && errors.Is(err, w.refuse) {
			said++
		}
	}
	if said != 1 {
		t.Errorf("it was said %d times", said)
	}
	w.refuse = nil
	w.rounds(1)
	if !maps.Equal(w.told, map[string]string{"a": "id-1"}) {
		t.Errorf("told of %v", w.told)
	}
	w.refuse = errors.New("no space left")
	w.write("b.tar", "image b 2")
	if err := w.importAll(t.Context()); !errors.Is(err, w.refuse) {
		t.Errorf("a start went on: %v", err)
	}
}

// TestListsThatComeLater: a list is pulled when it has changed, after those that are pulled now.
func TestListsThatComeLater(t *testing.T) {
	w := newWorld(t)
	w.write("a.txt", "web:1\n")
	w.start()
	batch := func(want ...string) {
		t.Helper()
		var got []string
		select {
		case files := <-w.pulls:
			for _, f := range files {
				got = append(got, filepath.Base(f.path))
			}
		default:
		}
		if !slices.Equal(got, want) {
			t.Errorf("lists %v are pulled, want %v", got, want)
		}
	}
	w.rounds(1)
	batch("a.txt") // at once
	w.rounds(2)
	batch()
	w.write("b.txt", "web:2\n")
	w.rounds(1)
	batch()
	w.rounds(1)
	w.write("c.txt", "web:3\n")
	w.rounds(2) // one list waits already
	batch("b.txt")
	w.rounds(1)
	batch("c.txt")
	w.rounds(1)
	batch()
}

// TestFollowEnds: with its context, whatever is under way, and then lets go of containerd.
func TestFollowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.write("a.txt", "web:1\n")
		w.start()
		w.store.block = true
		w.write("a.tar", "image a 1")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.follow(ctx, func() {}) }()
		time.Sleep(3 * every) // of the bubble's clock
		synctest.Wait()
		w.loads("a.tar")
		want := []string{"docker.io/library/web:1"}
		if pulled := w.store.pulled.Load(); pulled == nil || !slices.Equal(*pulled, want) {
			t.Errorf("pulled %v, want %v", pulled, want)
		}
		if w.store.closed {
			t.Error("it has let go of containerd")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if !w.store.closed || w.errors("a.tar") != 0 {
			t.Errorf("closed %v, %d lines about an archive whose import was ended", w.store.closed, w.errors("a.tar"))
		}
	})
}
