package shares

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/agent/vm/process"
	"github.com/a4s-io/a4s/agent/vm/qemu"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/vmlab"
)

// host is a directory with things to share: a volume with a file and another
// file system mounted in it.
func host(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	volume := filepath.Join(dir, "volume")
	if err := os.MkdirAll(filepath.Join(volume, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(volume, "file"), "content")
	write(t, filepath.Join(dir, "hosts"), "127.0.0.1 x")
	mountTmpfs(t, filepath.Join(volume, "sub"))
	write(t, filepath.Join(volume, "sub", "inner"), "inner")
	return dir
}

func mountTmpfs(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mount("none", path, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	list, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func add(t *testing.T, dir string, m Mount) {
	t.Helper()
	if err := Add(dir, m); err != nil {
		t.Fatal(err)
	}
}

func TestMounts(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	h, dir := host(t), filepath.Join(t.TempDir(), "a directory")
	// As systemd has it: what is mounted propagates everywhere.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := prepare(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Close(dir); err != nil {
			t.Error(err)
		}
	})
	shared := func(name string) string { return filepath.Join(dir, sharedDir, name) }
	if err := os.WriteFile(shared("mine"), nil, 0o644); !errors.Is(err, unix.EROFS) {
		t.Errorf("a guest could write into the share itself: %v", err)
	}
	add(t, dir, Mount{Name: "v/rw", Source: filepath.Join(h, "volume")})
	add(t, dir, Mount{Name: "v/ro", Source: filepath.Join(h, "volume"), ReadOnly: true})
	add(t, dir, Mount{Name: "v/follow", Source: filepath.Join(h, "volume"), Follow: true})
	add(t, dir, Mount{Name: "hosts", Source: filepath.Join(h, "hosts")})
	if got, want := names(t, dir), []string{"hosts", "v/follow", "v/ro", "v/rw"}; !slices.Equal(got, want) {
		t.Errorf("List() = %q, want %q", got, want)
	}
	for _, bad := range []Mount{
		{Name: "v/rw", Source: h}, {Name: "v", Source: h}, {Name: "v/rw/x", Source: h},
	} {
		if err := Add(dir, bad); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Add(%q): %v", bad.Name, err)
		}
	}
	for _, name := range []string{"", ".", "../x", "/x", "a//b", "a/../b"} {
		if err := Add(dir, Mount{Name: name, Source: h}); err == nil {
			t.Errorf("Add(%q) succeeded", name)
		}
		if err := Remove(dir, name); err == nil {
			t.Errorf("Remove(%q) succeeded", name)
		}
	}
	if err := Add(dir, Mount{Name: "x", Source: filepath.Join(h, "none")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a source that does not exist: %v", err)
	}

	write(t, shared("v/rw/file"), "changed")
	if got := read(t, shared("v/ro/file")); got != "changed" {
		t.Errorf("read-only view holds %q", got)
	}
	for _, name := range []string{"v/ro/file", "v/ro/sub/inner"} {
		if err := os.WriteFile(shared(name), nil, 0o644); !errors.Is(err, unix.EROFS) {
			t.Errorf("writing to %s: %v", name, err)
		}
	}
	later := filepath.Join(h, "volume", "later")
	if err := os.Mkdir(later, 0o755); err != nil {
		t.Fatal(err)
	}
	mountTmpfs(t, later)
	write(t, filepath.Join(later, "new"), "new")
	if got := read(t, shared("v/follow/later/new")); got != "new" {
		t.Errorf("what was mounted later holds %q", got)
	}
	if _, err := os.Stat(shared("v/rw/later/new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was mounted later appears where it was not asked for: %v", err)
	}

	if err := Remove(dir, "hosts"); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(shared("v/rw/sub/inner")) // in use
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 2 {
		if err := Remove(dir, "v"); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	for _, path := range []string{"volume/file", "volume/sub/inner", "volume/later/new", "hosts"} {
		if read(t, filepath.Join(h, path)) == "" {
			t.Errorf("%s of the host is gone", path)
		}
	}
	for range 2 {
		if err := Close(dir); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

// TestGuestSeesShares has a real guest behind a real virtiofsd.
func TestGuestSeesShares(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	guest := vmlab.New(t)
	if _, err := os.Stat(DefaultBinary); err != nil {
		t.Fatalf("run scripts/install-deps.sh test: %v", err)
	}
	h := host(t)
	// As systemd has it: what is mounted propagates everywhere.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	// Longer than the path of a socket may be.
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 25))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	group, err := process.NewCgroup("/", "a4s-test-shares-"+strconv.Itoa(os.Getpid()), false, process.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := Start(t.Context(), "", dir, group)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Kill(), server.Close(), Close(dir), group.Remove()); err != nil {
			t.Error(err)
		}
	})
	add(t, dir, Mount{Name: "early", Source: filepath.Join(h, "hosts")})
	c := qemu.Config{
		Dir: dir, Accelerator: qemu.TCG, MemoryMB: 128, CPUs: 1, Slots: 1,
		Kernel: guest.Kernel, Initrd: guest.Initrd, Cmdline: vmlab.Cmdline(),
		Shares: []qemu.Share{{Tag: "shared", Socket: filepath.Join(dir, Socket)}},
		Ports:  []qemu.Port{{Name: vmlab.Port, Socket: "lab.sock"}},
	}
	m, err := qemu.Start(t.Context(), c, group)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Kill(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	if pids, err := group.PIDs(); err != nil || len(pids) != 3 { // virtiofsd is two processes
		t.Errorf("in the control group: %v, %v", pids, err)
	}
	conn, err := qemu.DialPort(t.Context(), dir, "lab.sock")
	if err != nil {
		t.Fatal(err)
	}
	sh := vmlab.Open(t, conn)
	sh.Run("mount -t virtiofs shared /share")
	if got := sh.Run("cat /share/early"); got != "127.0.0.1 x" {
		t.Errorf("a shared file holds %q", got)
	}
	// What comes while the guest runs.
	add(t, dir, Mount{Name: "c1/rw", Source: filepath.Join(h, "volume")})
	add(t, dir, Mount{Name: "c1/ro", Source: filepath.Join(h, "volume"), ReadOnly: true})
	sh.Eventually("cat /share/c1/rw/sub/inner", "inner")
	sh.Run("echo from the guest > /share/c1/rw/new")
	if got := read(t, filepath.Join(h, "volume", "new")); got != "from the guest\n" {
		t.Errorf("the guest wrote %q", got)
	}
	for _, line := range []string{"echo x > /share/c1/ro/file", "echo x > /share/c1/ro/sub/inner",
		"ln -s /etc /share/c2", "echo x > /share/x", "mkdir /share/c1/x"} {
		if out, status := sh.Try(line); status == "0" || !strings.Contains(out, "Read-only file system") {
			t.Errorf("%s: %q, status %s", line, out, status)
		}
	}
	// The host replaces a file as the kubelet does, by a rename.
	write(t, filepath.Join(h, "volume", "next"), "next")
	if err := os.Rename(filepath.Join(h, "volume", "next"), filepath.Join(h, "volume", "file")); err != nil {
		t.Fatal(err)
	}
	sh.Eventually("cat /share/c1/ro/file", "next")

	if err := Remove(dir, "c1"); err != nil {
		t.Fatal(err)
	}
	sh.Eventually("ls /share", "early")
	if got := names(t, dir); !slices.Equal(got, []string{"early"}) {
		t.Errorf("List() = %q", got)
	}

	if again, err := Attach(dir); err != nil || again.PID() != server.PID() {
		t.Errorf("found again: %v, %v", again, err)
	}
	u, err := server.Usage()
	t.Logf("virtiofsd: %+v, %v", u, err)
	if err := m.Quit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(t.Context()); err != nil { // it ends with QEMU
		t.Fatal(err)
	}
	if _, err := Attach(dir); !errors.Is(err, process.ErrGone) {
		t.Errorf("found after its end: %v", err)
	}
	if err := Close(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := Mounts(dir); err != nil || len(left) != 0 {
		t.Errorf("still mounted: %v, %v", left, err)
	}
}

func TestKilledServerLeavesNothing(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	if _, err := os.Stat(DefaultBinary); err != nil {
		t.Fatalf("run scripts/install-deps.sh test: %v", err)
	}
	dir := t.TempDir()
	group, err := process.NewCgroup("/", "a4s-test-killed-"+strconv.Itoa(os.Getpid()), false, process.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := Start(t.Context(), "", dir, group)
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, logFile)
	deadline := time.Now().Add(2 * time.Minute)
	waitFor := func(what string, ok func() bool) {
		t.Helper()
		for !ok() {
			if time.Now().After(deadline) {
				text, _ := os.ReadFile(log)
				t.Fatalf("timeout: %s\n%s", what, text)
			}
		}
	}
	pids := func() int {
		list, err := group.PIDs()
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	conn, err := net.Dial("unix", filepath.Join(dir, Socket)) // as QEMU does
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	waitFor("its sandbox is made", func() bool { return pids() == 2 })
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	waitFor("its child ended", func() bool { return pids() == 0 })
	if err := errors.Join(server.Close(), Close(dir), group.Remove()); err != nil {
		t.Error(err)
	}
	if left, err := Mounts(dir); err != nil || len(left) != 0 {
		t.Errorf("still mounted: %v, %v", left, err)
	}
}

func TestStartCleansUpBehindItself(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	dir := t.TempDir()
	if _, err := Start(t.Context(), "/no/virtiofsd", dir, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a virtiofsd that does not exist: %v", err)
	}
	if left, err := Mounts(dir); err != nil || len(left) != 0 {
		t.Errorf("still mounted: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(dir, Socket)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket: %v", err)
	}
}
