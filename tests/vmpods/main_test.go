package vmpods

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The environment of the tests.
const (
	// envRun turns the tests on.
	envRun = "A4S_VM_PODS"
	// envBinary is a4s.
	envBinary = "A4S_BINARY"
	// envGuest is the directory of vmlinuz and initrd.img.
	envGuest = "A4S_VM_GUEST"
	// envBusybox is a static busybox, of which the images are made.
	envBusybox = "A4S_BUSYBOX"
	// envCritest is the compiled critest, without which it is not run.
	envCritest = "A4S_CRITEST"
	// envInside marks the process in namespaces of its own.
	envInside = "A4S_VM_PODS_INSIDE"
)

// runDir is covered with memory: paths of sockets below it are short.
const runDir = "/run"

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(envRun) == "" {
		fmt.Printf("runs virtual machines: set %s, or use `make test-vmpods`\n", envRun)
		return
	}
	var code int
	var err error
	if os.Getenv(envInside) == "" {
		code, err = outside()
	} else if err = inside(); err == nil {
		code = m.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vmpods:", err)
		code = 1
	}
	os.Exit(code)
}

// outside runs this program again in namespaces of its own.
func outside() (int, error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("needs root")
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), envInside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	runtime.LockOSThread() // the child dies with the thread
	// What outlives its parents ends with the last process of the namespace.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// inside prepares the namespaces.
func inside() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	// The CNI library records there what containerd attached.
	for _, dir := range []string{runDir, "/var/lib/cni", "/var/log/pods"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("mounting memory at %s: %w", dir, err)
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("bringing up the loopback: %w", err)
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}

// setting is an environment variable, or what the build leaves in bin.
func setting(t testing.TB, name, beside string) string {
	t.Helper()
	path := os.Getenv(name)
	if path == "" {
		path = filepath.Join("..", "..", "bin", beside)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return path
}

// busybox returns the program: the one that the environment names, the one that
// `make test-vm` has downloaded, or that of the machine.
func busybox(t testing.TB) []byte {
	t.Helper()
	paths := []string{os.Getenv(envBusybox)}
	if paths[0] == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		paths = []string{filepath.Join(cache, "a4s-vm-"+runtime.GOARCH, "busybox", "bin", "busybox"), "/bin/busybox"}
	}
	var errs []error
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err == nil {
			return data
		}
		errs = append(errs, err)
	}
	t.Fatalf("%s, or the package busybox-static: %v", envBusybox, errors.Join(errs...))
	return nil
}
