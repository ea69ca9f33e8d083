package qemu

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestTrimConsole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console")
	takes := func() int64 {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Blocks * 512
	}
	write := func(content []byte) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	const most, kept = 256 << 10, 64 << 10
	write(bytes.Repeat([]byte("a"), most/2))
	if err := trimConsole(path, most, kept); err != nil {
		t.Fatal(err)
	}
	if got := takes(); got < most/2 {
		t.Errorf("a small console takes %d bytes now", got)
	}
	for range 3 {
		write(bytes.Repeat([]byte("b"), most))
		write([]byte("the end"))
		if err := trimConsole(path, most, kept); err != nil {
			t.Fatal(err)
		}
		if got := takes(); got > kept+8192 {
			t.Errorf("it takes %d bytes", got)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := most/2 + 3*(most+len("the end")); len(data) != want || !bytes.HasSuffix(data, []byte("bthe end")) ||
		data[len(data)-kept/2] != 'b' || data[0] != 0 {
		t.Errorf("%d bytes, want %d, ending in %q", len(data), want, data[len(data)-10:])
	}
}
