package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/problem"
)

func sources() []Source {
	return []Source{
		{Path: Database, Mode: 0o600, Data: bytes.Repeat([]byte("page "), 4000)},
		{Path: "server/token", Mode: 0o600, Data: []byte("secret\n")},
		{Path: "server/tls/etcd/client.crt", Mode: 0o644, Data: nil},
	}
}

func archive(t *testing.T, compress bool, s []Source) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, &Manifest{Node: "n", Revision: 7, Created: time.Unix(1000, 0).UTC()}, s,
		compress); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadGivesBackWhatWasWritten(t *testing.T) {
	for _, compress := range []bool{false, true} {
		var got []Source
		m, err := Read(bytes.NewReader(archive(t, compress, sources())), func(f File, r io.Reader) error {
			data, err := io.ReadAll(r)
			got = append(got, Source{Path: f.Path, Mode: os.FileMode(f.Mode), Data: data})
			return err
		})
		if err != nil || m.Node != "n" || m.Revision != 7 {
			t.Fatalf("compress %v: %+v, %v", compress, m, err)
		}
		for i, want := range sources() {
			if g := got[i]; g.Path != want.Path || g.Mode != want.Mode || !bytes.Equal(g.Data, want.Data) {
				t.Errorf("compress %v: file %d is %s, mode %o", compress, i, g.Path, g.Mode)
			}
		}
	}
}

// Whichever byte is wrong or missing: what Read accepts has the right content.
func TestNoDamageGoesUnnoticed(t *testing.T) {
	for _, compress := range []bool{false, true} {
		whole := archive(t, compress, sources())
		var want bytes.Buffer
		collect := func(to *bytes.Buffer) func(File, io.Reader) error {
			return func(f File, r io.Reader) error {
				fmt.Fprintf(to, "%s %o\n", f.Path, f.Mode)
				_, err := io.Copy(to, r)
				return err
			}
		}
		if _, err := Read(bytes.NewReader(whole), collect(&want)); err != nil {
			t.Fatal(err)
		}
		noticed := 0
		for i := 0; i < len(whole); i += max(1, len(whole)/700) {
			bad := slices.Clone(whole)
			bad[i] ^= 0x41
			var got bytes.Buffer
			_, err := Read(bytes.NewReader(bad), collect(&got))
			if err == nil && got.String() != want.String() {
				t.Fatalf("compress %v: a flip of byte %d is accepted and changes the content", compress, i)
			}
			if err != nil {
				noticed++
				if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) && !errors.Is(err, ErrFormat) {
					t.Fatalf("compress %v: byte %d: %v, want one of the package's errors", compress, i, err)
				}
			}
			// Zeros behind the last file are padding.
			if _, err := Read(bytes.NewReader(whole[:i]), nil); err == nil && i < len(whole)-1024 {
				t.Fatalf("compress %v: %d bytes of %d are accepted", compress, i, len(whole))
			}
		}
		if noticed < 400 {
			t.Errorf("compress %v: only %d flips were noticed", compress, noticed)
		}
	}
}

func TestForeignFilesAreRefused(t *testing.T) {
	newer := bytes.Replace(archive(t, false, sources()), []byte(`"format": 1`), []byte(`"format": 9`), 1)
	for name, tc := range map[string]struct {
		data string
		want error
	}{
		"empty":         {"", ErrForeign},
		"text":          {"hello, this is no archive", ErrForeign},
		"zeros":         {strings.Repeat("\x00", 4096), ErrForeign},
		"zstd of text":  {"\x28\xb5\x2f\xfd garbage", ErrForeign},
		"edited":        {string(newer), ErrDamaged},
		"etcd snapshot": {strings.Repeat("\x00", 16) + "\xed\xda\x0c\xed" + strings.Repeat("x", 8192), ErrForeign},
	} {
		if _, err := Read(strings.NewReader(tc.data), nil); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func TestPathsStayBelowTheDirectory(t *testing.T) {
	for _, path := range []string{"server/../x", "/etc/passwd", "server//x", "server/", "other",
		"server/a/../../../x", "../etcd.db"} {
		err := write(io.Discard, &Manifest{}, []Source{{Path: path}}, false)
		if err == nil || validPath(path) {
			t.Errorf("%q is accepted", path)
		}
	}
}

func save(t *testing.T, d Dir, name string) *Entry {
	t.Helper()
	e, err := d.Save(Request{Name: name, Node: "n",
		Fill: func(string) (*Manifest, []Source, error) { return &Manifest{}, sources(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func names(t *testing.T, d Dir) []string {
	t.Helper()
	files, err := os.ReadDir(string(d))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		out = append(out, f.Name())
	}
	return out
}

func TestSaveListPruneDelete(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "made", "by-save"))
	if list, err := d.List(); err != nil || list != nil {
		t.Fatalf("no directory: %v, %v", list, err)
	}
	var ours []string
	for range 4 {
		ours = append(ours, save(t, d, "a").Name) // within a second: the names differ all the same
	}
	other := save(t, d, "a-b").Name
	if info, err := os.Stat(filepath.Join(string(d), ours[0])); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	damaged := "a-n-1.tar"
	if err := os.WriteFile(filepath.Join(string(d), damaged), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := d.List()
	if err != nil || len(list) != 6 || list[0].Name != damaged || !errors.Is(list[0].Err, ErrForeign) {
		t.Fatalf("%d listed, %v: %+v", len(list), err, list)
	}
	pruned, err := d.Prune(Prefix("a", "n"), 2)
	if err != nil || !slices.Equal(pruned, ours[:2]) {
		t.Errorf("pruned %v, %v, want the oldest two of %v", pruned, err, ours)
	}
	if err := d.Delete(ours[2]); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{ours[2], "../x.tar", "", "x", "a/b.tar"} {
		var in *problem.Input
		if err := d.Delete(bad); !errors.As(err, &in) {
			t.Errorf("deleting %q: %v, want a problem of the input", bad, err)
		}
	}
	if got := names(t, d); !slices.Equal(got, []string{other, damaged, ours[3]}) {
		t.Errorf("left are %v", got)
	}
	if path, err := d.Find(other); err != nil || path != filepath.Join(string(d), other) {
		t.Errorf("Find = %s, %v", path, err)
	}
	if _, err := d.Find("nothing.tar"); err == nil {
		t.Error("found what is not there")
	}
}

func TestFailedSaveLeavesNothing(t *testing.T) {
	d := Dir(t.TempDir())
	stale := filepath.Join(string(d), workPrefix+"killed")
	if err := os.Mkdir(stale, 0o700); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("no datastore")
	_, err := d.Save(Request{Name: "a", Node: "n", Fill: func(dir string) (*Manifest, []Source, error) {
		return nil, nil, errors.Join(cause, os.WriteFile(filepath.Join(dir, "half"), []byte("x"), 0o600))
	}})
	if !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	if got := names(t, d); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

func TestFullDiskKeepsTheOldAndLeavesNoHalfOne(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=128k"); err != nil {
		t.Skipf("no tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	d := Dir(dir)
	first := save(t, d, "a")
	_, err := d.Save(Request{Name: "a", Node: "n", Fill: func(string) (*Manifest, []Source, error) {
		return &Manifest{}, []Source{{Path: Database, Mode: 0o600, Data: make([]byte, 256<<10)}}, nil
	}})
	var p *problem.Precondition
	if !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &p) || !strings.Contains(p.Fix, "space") {
		t.Errorf("error %v, want a precondition about space", err)
	}
	if got := names(t, d); !slices.Equal(got, []string{first.Name}) {
		t.Errorf("the directory has %v", got)
	}
	if err := Verify(first.Path); err != nil {
		t.Error(err)
	}
}
