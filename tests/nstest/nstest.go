package nstest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/a4s-io/a4s/tests/process"
)

const marker = "A4S_NSTEST"

// grace is what is left of the time of the test to report that the copy has
// taken all of it.
const grace = 5 * time.Second

// Isolate re-executes the calling test in new namespaces. It returns true in
// the child, where the body must run, and false in the parent, where the
// child's outcome has already been reported. Tests that call it run in parallel.
//
// Namespaces belong to threads and the code under test starts goroutines, so
// a whole process has to be inside.
func Isolate(t *testing.T) bool {
	t.Helper()
	if IsCopy(t) {
		enter(t)
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to create namespaces")
	}
	t.Parallel() // what a test makes is in its copy
	// The copy has as long as this process has, or as long as it takes.
	timeout := time.Duration(0)
	if deadline, ok := t.Deadline(); ok {
		timeout = max(time.Second, time.Until(deadline)-grace)
	}
	cmd := Command(t.Name(), "-test.v=true", "-test.timeout="+timeout.String())
	out, err := process.CombinedOutput(cmd)
	if err != nil {
		t.Fatalf("in its own namespaces: %v\n%s", err, out)
	}
	if testing.Verbose() {
		t.Logf("in its own namespaces:\n%s", out)
	}
	return false
}

// IsCopy reports whether this process is one that Isolate or Command made for the
// test.
func IsCopy(t *testing.T) bool { return os.Getenv(marker) == t.Name() }

// Command is a process that runs the test of this name, which calls Isolate, in
// new namespaces. Whoever starts it does so by package process.
func Command(test string, flags ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", append(flags, "-test.run=^"+test+"$", "-test.count=1")...)
	cmd.Env = append(os.Environ(), marker+"="+test)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	return cmd
}

func enter(t *testing.T) {
	t.Helper()
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatalf("making mounts private: %v", err)
	}
	// sysctls below /proc/sys/net follow the namespace of whoever opens them.
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
}
