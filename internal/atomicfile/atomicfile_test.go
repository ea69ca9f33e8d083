package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestWriteReplacesContentAndMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, tc := range []struct {
		data string
		mode fs.FileMode
	}{{"long first content", 0o644}, {"second", 0o600}, {"", 0o660}} {
		if err := WriteGroup(path, []byte(tc.data), tc.mode, os.Getgid()); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != tc.data {
			t.Fatalf("content %q, %v; want %q", got, err, tc.data)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode() != tc.mode {
			t.Fatalf("mode %v, %v; want %v", fi.Mode(), err, tc.mode)
		}
	}
}

func TestFailedWriteLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "occupied")
	if err := os.Mkdir(target, 0o755); err != nil { // rename onto a directory fails
		t.Fatal(err)
	}
	var p *problem.Precondition
	if err := Write(target, []byte("x"), 0o600); !errors.As(err, &p) {
		t.Fatalf("error %v, want a precondition", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("left behind: %v, %v", entries, err)
	}
}

func TestUpdateLeavesWhatIsRightAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	inode := func() os.FileInfo {
		t.Helper()
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	if err := Update(path, []byte("a"), 0o644); err != nil {
		t.Fatal(err)
	}
	first := inode()
	if err := Update(path, []byte("a"), 0o644); err != nil || !os.SameFile(first, inode()) {
		t.Errorf("the same content made another file: %v", err)
	}
	if err := Update(path, []byte("b"), 0o644); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "b" {
		t.Errorf("content %q, %v", data, err)
	}
}
