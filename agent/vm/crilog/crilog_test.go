package crilog

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if n, err := io.WriteString(w, text); err != nil || n != len(text) {
		t.Fatalf("wrote %d, %v", n, err)
	}
}

func TestFormatAndReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod", "c", "0.log")
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	l.now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC) }
	out, errs := l.Stream(Stdout), l.Stream(Stderr)
	write(t, out, "one\ntw")
	write(t, errs, "bad\n")
	write(t, out, "o\n\n")
	long := strings.Repeat("x", maxLine+1)
	write(t, out, long+"\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	write(t, out, "unfinished")
	for range 2 {
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(t, out, "late\n")

	const now = "2026-01-02T03:04:05.000006Z"
	for file, want := range map[string]string{
		path + ".1": now + " stdout F one\n" + now + " stderr F bad\n" + now + " stdout F two\n" +
			now + " stdout F \n" +
			now + " stdout P " + long[:maxLine] + "\n" + now + " stdout F x\n",
		path: now + " stdout F unfinished\n",
	} {
		got, err := os.ReadFile(file)
		if err != nil || string(got) != want {
			t.Errorf("%s, %v:\n%s\nwant\n%s", file, err, got, want)
		}
	}
}

func TestWithoutAPathEverythingIsDropped(t *testing.T) {
	l, err := Open("")
	if err != nil {
		t.Fatal(err)
	}
	write(t, l.Stream(Stdout), "x\n")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
