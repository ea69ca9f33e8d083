package images

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

func TestScan(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.tar", "a.tar.gz", "c.tgz", "d.tar.zst", "list.txt", "README.md", ".hidden.tar"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "dir.tar"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling.tar")); err != nil {
		t.Fatal(err)
	}
	logger, hook := test.NewNullLogger()
	i := &importer{Options: Options{Dir: dir, Log: logrus.NewEntry(logger)}}
	archives, lists, err := i.scan()
	if err != nil {
		t.Fatal(err)
	}
	var got, mentioned []string
	for _, f := range append(archives, lists...) {
		got = append(got, filepath.Base(f.path))
	}
	if _, _, err := i.scan(); err != nil {
		t.Fatal(err)
	}
	for _, entry := range hook.AllEntries() {
		mentioned = append(mentioned, filepath.Base(entry.Data["file"].(string)))
	}
	if want := []string{"a.tar.gz", "b.tar", "c.tgz", "d.tar.zst", "list.txt"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if want := []string{"README.md", "dangling.tar", "dir.tar"}; !slices.Equal(mentioned, want) {
		t.Errorf("mentioned %v, want %v", mentioned, want)
	}
	i.Dir = filepath.Join(dir, "none")
	if archives, lists, err := i.scan(); err != nil || archives != nil || lists != nil {
		t.Errorf("missing directory: %v, %v, %v", archives, lists, err)
	}
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	logger, hook := test.NewNullLogger()
	log := logrus.NewEntry(logger)
	file := filepath.Join(dir, "images.json")
	if s := readState(file, log); len(s) != 0 || len(hook.AllEntries()) != 0 {
		t.Errorf("missing file: %v, %d log entries", s, len(hook.AllEntries()))
	}

	archive := filepath.Join(dir, "a.tar")
	if err := os.WriteFile(archive, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := statFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	s := state{
		archive:    {Size: st.size, ModTime: st.modTime, Images: map[string]string{"a": "sha256:1"}},
		"gone.tar": {},
	}
	if !s.forget([]string{archive}) || s.forget([]string{archive}) {
		t.Error("what is gone was forgotten never or twice")
	}
	if err := s.write(file); err != nil {
		t.Fatal(err)
	}
	again := readState(file, log)
	if got := slices.Collect(maps.Keys(again)); !slices.Equal(got, []string{archive}) {
		t.Fatalf("read back %v", got)
	}
	if !again[archive].of(st) {
		t.Error("an unchanged file counts as changed")
	}
	if err := os.WriteFile(archive, []byte("xy"), 0o600); err != nil {
		t.Fatal(err)
	}
	if st, err = statFile(archive); err != nil {
		t.Fatal(err)
	}
	if again[archive].of(st) {
		t.Error("a changed file counts as unchanged")
	}

	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := readState(file, log); len(s) != 0 || len(hook.AllEntries()) != 1 {
		t.Errorf("damaged file: %v, %d log entries", s, len(hook.AllEntries()))
	}
}

func TestParseList(t *testing.T) {
	names, err := parseList("# comment\n\nnginx\ndocker.io/library/nginx:latest\n" +
		"registry.example:5000/a/b:1\nBad Name\n")
	want := []string{"docker.io/library/nginx:latest", "registry.example:5000/a/b:1"}
	if !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	if err == nil || !strings.Contains(err.Error(), `"Bad Name"`) {
		t.Errorf("error = %v, want one about the bad line", err)
	}
}

func TestFullReference(t *testing.T) {
	for name, want := range map[string]string{
		"latest":                    "",
		"1.2":                       "",
		"a/b":                       "docker.io/a/b:latest",
		"nginx:1":                   "docker.io/library/nginx:1",
		"registry.example:5000/x:1": "registry.example:5000/x:1",
		"Not/Valid:":                "",
	} {
		if got := fullReference(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
