package vmlab

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Port is the name of the guest's virtio-serial port.
const Port = "lab"

// Machine is what QEMU emulates for an architecture: its program, board and processor, and Linux' name of the serial
// console.
type Machine struct{ Emulator, Board, CPU, Console string }

// MachineOf is that of an architecture, false if a4s is not built for it.
func MachineOf(arch string) (Machine, bool) {
	m, ok := map[string]Machine{
		"amd64": {"qemu-system-x86_64", "q35", "max", "ttyS0"},
		"arm64": {"qemu-system-aarch64", "virt,gic-version=max", "max,pauth-impdef=on", "ttyAMA0"},
	}[arch]
	return m, ok
}

// own is that of the tests' architecture.
func own() Machine {
	m, _ := MachineOf(runtime.GOARCH)
	return m
}

// Cmdline is what the guest's kernel must be told.
func Cmdline() string { return "console=" + own().Console + " panic=-1 reboot=t" }

// modules are loaded by the guest in this order, where the kernel does not
// have them built in.
var modules = []string{
	"virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci",
	"virtio_console", "virtio_blk", "failover", "net_failover", "virtio_net", "fuse", "virtiofs", "cdrom", "isofs",
}

// initScript runs the commands that come through the port, each answered with
// its output and a line with its status. It waits for the end of nothing: the
// host ends the machine.
const initScript = `#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r m; do insmod /modules/$m.ko; done </modules/list
mkdir -p /mnt /share
for p in /sys/class/virtio-ports/*; do
	[ "$(cat $p/name)" = lab ] && port=/dev/${p##*/}
done
exec 3<>$port
echo "ready" >&3
while read -r line <&3; do
	eval "$line" >&3 2>&1 3>&- </dev/null
	echo "status $?" >&3
done
`

// Guest is a kernel and an initial RAM disk.
type Guest struct{ Kernel, Initrd string }

// built is made once for the tests of a process.
var built = sync.OnceValues(build)

// Wanted is the variable that turns on tests which boot guests.
const Wanted = "A4S_VM_GUEST"

// New returns the guest, or skips the test.
func New(t testing.TB) Guest {
	t.Helper()
	if os.Getenv(Wanted) == "" {
		t.Skipf("boots a guest: run it with `make test-vm`, or set %s", Wanted)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root for virtual machines")
	}
	if _, err := exec.LookPath(own().Emulator); err != nil {
		t.Skip("needs QEMU (scripts/install-deps.sh vm): ", err)
	}
	files, err := built()
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("needs the kernel and busybox that `make test-vm` downloads: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	initrd := filepath.Join(t.TempDir(), "initrd")
	if err := os.WriteFile(initrd, files.initrd, 0o600); err != nil {
		t.Fatal(err)
	}
	return Guest{Kernel: files.kernel, Initrd: initrd}
}

type guestFiles struct {
	kernel string
	initrd []byte
}

func build() (f guestFiles, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return f, err
	}
	dir := filepath.Join(cache, "a4s-vm-"+runtime.GOARCH)
	f.kernel = filepath.Join(dir, "vmlinuz")
	if _, err := os.Stat(f.kernel); err != nil {
		return f, err
	}
	busybox, err := os.ReadFile(filepath.Join(dir, "busybox", "bin", "busybox"))
	if err != nil {
		return f, err
	}
	found := map[string]string{}
	err = filepath.WalkDir(filepath.Join(dir, "kernel", "lib", "modules"),
		func(path string, d fs.DirEntry, err error) error {
			if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok && err == nil {
				found[name] = path
			}
			return err
		})
	if err != nil {
		return f, err
	}
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	if err != nil {
		return f, err
	}
	a := archive{w: z}
	for _, d := range []string{"bin", "dev", "proc", "sys", "modules"} {
		a.add(d, modeDir|0o755, nil)
	}
	a.add("bin/busybox", modeFile|0o755, busybox)
	a.add("init", modeFile|0o755, []byte(initScript))
	var list strings.Builder
	for _, name := range modules {
		path, ok := found[name]
		if !ok {
			return f, fmt.Errorf("module %s of the guest's kernel: %w", name, fs.ErrNotExist)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return f, err
		}
		a.add("modules/"+name+".ko", modeFile|0o644, data)
		fmt.Fprintln(&list, name)
	}
	a.add("modules/list", modeFile|0o644, []byte(list.String()))
	a.add("TRAILER!!!", 0, nil)
	if err := errors.Join(a.err, z.Close()); err != nil {
		return f, err
	}
	f.initrd = buf.Bytes()
	return f, nil
}

// Shell is the guest's shell.
type Shell struct {
	t    testing.TB
	conn net.Conn
	buf  []byte
}

// patience is how long a guest may take, which may be emulated on a busy
// machine.
const patience = 60 * time.Second

// Open waits until the guest behind the connection has booted.
func Open(t testing.TB, conn net.Conn) *Shell {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	s := &Shell{t: t, conn: conn}
	s.until("ready\n")
	return s
}

// until returns what comes before the mark.
func (s *Shell) until(mark string) string {
	s.t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	for {
		if before, after, ok := bytes.Cut(s.buf, []byte(mark)); ok {
			s.buf = bytes.Clone(after)
			return string(before)
		}
		chunk := make([]byte, 4096)
		n, err := s.conn.Read(chunk)
		if err != nil {
			s.t.Fatalf("the guest says %q, then: %v", s.buf, err)
		}
		s.buf = append(s.buf, chunk[:n]...)
	}
}

// Try runs a command line and returns its output and status.
func (s *Shell) Try(line string) (string, string) {
	s.t.Helper()
	if _, err := fmt.Fprintln(s.conn, line); err != nil {
		s.t.Fatal(err)
	}
	out := s.until("status ")
	return strings.TrimSpace(out), s.until("\n")
}

// Run runs a command line that must succeed and returns its output.
func (s *Shell) Run(line string) string {
	s.t.Helper()
	out, status := s.Try(line)
	if status != "0" {
		s.t.Fatalf("in the guest: %s: status %s\n%s", line, status, out)
	}
	return out
}

// Eventually runs a command line until its output is what is wanted.
func (s *Shell) Eventually(line, want string) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		out, _ := s.Try(line)
		if out == want {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("in the guest: %s: %q, want %q", line, out, want)
		}
	}
}
