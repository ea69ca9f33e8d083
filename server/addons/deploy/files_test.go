package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a.yml", "c.json", "sub/deep/d.yaml", "README.md", ".hidden.yaml",
		".git/x.yaml", "s.yaml", "s.yaml.skip", "sub/s.yaml", "t.yaml.skip", "a.yaml~"} {
		write(t, dir, name, "x")
	}
	if err := os.Symlink(filepath.Join(dir, "b.yaml"), filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "missing"), filepath.Join(dir, "dangling.yaml")); err != nil {
		t.Fatal(err)
	}
	files, dirs, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range files {
		got = append(got, e.path)
	}
	if want := "a.yml b.yaml c.json link.yaml sub/deep/d.yaml sub/s.yaml"; strings.Join(got, " ") != want {
		t.Errorf("found %s, want %s", strings.Join(got, " "), want)
	}
	if want := []string{dir, filepath.Join(dir, "sub"), filepath.Join(dir, "sub/deep")}; !slices.Equal(dirs, want) {
		t.Errorf("directories %v, want %v", dirs, want)
	}
}

func TestSettled(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		modified time.Time
		want     bool
	}{
		{now, false}, {now.Add(-settle / 2), false}, {now.Add(-settle), true}, {time.Unix(0, 0), true},
		{now.Add(time.Hour), true},
	} {
		if got := (entry{stamp: stamp{modified: tc.modified}}).settled(now); got != tc.want {
			t.Errorf("changed at %s, at %s: settled is %v", tc.modified, now, got)
		}
	}
}

// looked is what is to be applied of a directory.
func looked(t *testing.T, f *follower, now time.Time) map[string]error {
	t.Helper()
	files, _, err := list(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	f.forget(files)
	out := map[string]error{}
	for _, e := range files {
		if m, ok := f.look(e, now); ok {
			out[e.path] = m.err
		}
	}
	return out
}

// TestLook: a file is read when it has changed, and only then.
func TestLook(t *testing.T) {
	f := &follower{deployer: &deployer{log: logrus.NewEntry(logrus.StandardLogger())}, dir: t.TempDir(),
		files: map[string]*state{}}
	now := time.Now()
	expect := func(what string, want ...string) map[string]error {
		t.Helper()
		got := looked(t, f, now)
		for _, name := range want {
			if _, ok := got[name]; !ok {
				t.Errorf("%s: %s is not applied", what, name)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %v are applied, want %v", what, got, want)
		}
		return got
	}
	write(t, f.dir, "a.yaml", cm("x"))
	write(t, f.dir, "b.yaml", "kind: [")
	if got := expect("new", "a.yaml", "b.yaml"); got["a.yaml"] != nil || got["b.yaml"] == nil {
		t.Errorf("read with %v", got)
	}
	expect("unchanged")
	if err := os.Chtimes(filepath.Join(f.dir, "a.yaml"), time.Unix(0, 0), time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	expect("touched")
	write(t, f.dir, "a.yaml", cm("y"))
	if err := os.Chtimes(filepath.Join(f.dir, "a.yaml"), time.Unix(0, 0), time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	expect("another content of the same length and time", "a.yaml")
	f.files["a.yaml"].due = now.Add(time.Second)
	expect("not due yet")
	f.files["a.yaml"].due = now
	expect("due", "a.yaml")
	write(t, f.dir, "a.yaml.skip", "")
	expect("skipped")
	if err := os.Remove(filepath.Join(f.dir, "a.yaml.skip")); err != nil {
		t.Fatal(err)
	}
	expect("not skipped any more", "a.yaml")
	if err := os.Remove(filepath.Join(f.dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	expect("removed")
	if f.files["a.yaml"] != nil {
		t.Error("a removed file is not forgotten")
	}
}
