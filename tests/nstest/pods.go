package nstest

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Shell runs a script, which ends at the first command that fails, and so does
// the test.
func Shell(t testing.TB, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-e")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
}

// In runs f in the network namespace that `ip netns` calls name, in that of the
// process if it is "".
func In(name string, f func() error) error {
	if name != "" {
		name = "/run/netns/" + name
	}
	return InFile(name, f)
}

// InFile runs f in the network namespace that a file is, in that of the process if path is "".
func InFile(path string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for ever: the thread is of no other use afterwards
		if path == "" {
			done <- f()
			return
		}
		ns, err := os.Open(path)
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			_ = ns.Close() // it was only read
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}
