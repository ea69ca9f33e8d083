package health

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// W12: what a pod takes of the kernel's limits is a finding before it is all of them.
func TestWallW12UseOfKernelLimits(t *testing.T) {
	proc := t.TempDir()
	set := func(file, text string) {
		t.Helper()
		path := filepath.Join(proc, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := NewRegistry()
	now := time.Now()
	r.now = func() time.Time { return now }
	check := KernelLimits(proc)
	found := func() map[string]string {
		check(t.Context(), r)
		out := map[string]string{}
		for _, p := range r.Problems() {
			if p.Code != KernelLimit || !strings.Contains(p.Detail, "sysctl -w ") {
				t.Errorf("unexpected problem %+v", p)
			}
			out[p.Subject] = p.Detail
		}
		return out
	}
	if got := found(); len(got) != 0 {
		t.Errorf("a kernel that tells nothing has problems: %v", got)
	}

	set("sys/fs/aio-nr", "60000\n")
	set("sys/fs/aio-max-nr", "65536\n")
	set("sys/fs/file-nr", "956\t0\t9223372036854775807\n")
	set("sys/fs/file-max", "9223372036854775807\n")
	set("sys/kernel/pty/nr", "4000\n")
	set("sys/kernel/pty/max", "4096\n")
	set("sys/kernel/pid_max", "32768\n")
	set("sys/kernel/threads-max", "190000\n")
	set("loadavg", "0.20 0.18 0.12 1/30000 11206\n")
	set("key-users", "    0:    37 36/36 28/1000000 599/25000000\n 1000:     5 5/5 190/200 57/20000\n")
	set("sys/fs/inotify/max_user_instances", "4\n")
	for fd, target := range []string{"anon_inode:inotify", "anon_inode:inotify", "anon_inode:[inotify]",
		"anon_inode:inotify", "anon_inode:[eventpoll]", "/dev/null"} {
		path := filepath.Join(proc, "77/fd", string(rune('0'+fd)))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(filesEvery)
	got := found()
	var subjects []string
	for s := range got {
		subjects = append(subjects, strings.ReplaceAll(s, " of user "+strconv.Itoa(os.Geteuid()), " of user U"))
	}
	slices.Sort(subjects)
	want := []string{"fs.aio-max-nr", "fs.inotify.max_user_instances of user U",
		"kernel.keys.maxkeys of user 1000", "kernel.pid_max", "kernel.pty.max"}
	if !slices.Equal(subjects, want) {
		t.Errorf("near their limit are %q, want %q", subjects, want)
	}
	if detail := got["fs.aio-max-nr"]; detail != "60000 of 65536 are taken: sysctl -w fs.aio-max-nr=131072" {
		t.Errorf("detail %q", detail)
	}

	set("sys/fs/aio-nr", "0\n")
	if _, ok := found()["fs.aio-max-nr"]; ok {
		t.Error("the finding stays after its end")
	}
}

// brief ends after so many questions whether it has.
type brief struct {
	context.Context
	left int
}

func (b *brief) Err() error {
	if b.left--; b.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// A process with very many files does not keep the check from the others, and neither do many
// processes: what one look does not come to is first at the next one.
func TestLooksAtFilesAreBounded(t *testing.T) {
	proc := t.TempDir()
	files := func(process string, n int) {
		t.Helper()
		fds := filepath.Join(proc, process, "fd")
		if err := os.MkdirAll(fds, 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if err := os.Symlink("anon_inode:inotify", filepath.Join(fds, strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	files("1", 1)
	files("2", filesOfProcess+filesAtOnce)
	files("3", 3)
	files("4", 4)
	l := kernelLimits{proc: proc, seen: map[string]instances{}}
	check := func(when string, want map[string]uint64) {
		t.Helper()
		got := map[string]uint64{}
		for dir, i := range l.seen {
			got[filepath.Base(dir)] = i.n
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	l.look(&brief{Context: t.Context()})
	check("without time", map[string]uint64{})
	l.look(&brief{Context: t.Context(), left: 2})
	check("with time for two", map[string]uint64{"1": 1, "2": filesOfProcess})
	files("30", 30)
	l.look(&brief{Context: t.Context(), left: 3})
	check("it goes on", map[string]uint64{"1": 1, "2": filesOfProcess, "3": 3, "30": 30, "4": 4})

	for _, gone := range []string{"1", "2"} {
		if err := os.RemoveAll(filepath.Join(proc, gone)); err != nil {
			t.Fatal(err)
		}
	}
	l.look(&brief{Context: t.Context()})
	check("processes have ended", map[string]uint64{"3": 3, "30": 30, "4": 4})
	if got := fmt.Sprint(l.watched()); got != fmt.Sprintf("map[%d:37]", os.Geteuid()) {
		t.Errorf("by user: %s", got)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if l.uses(ctx, time.Now()); l.looked.IsZero() {
		t.Error("it did not look")
	}
	check("the check is over", map[string]uint64{"3": 3, "30": 30, "4": 4})
}
