package instance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/tests/process"
)

// seesVariable makes the test binary a process that sees other files, in the way that it says.
const seesVariable = "A4S_TEST_SEES"

func TestMain(m *testing.M) {
	if how := os.Getenv(seesVariable); how != "" {
		if err := see(how); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// see changes what this process sees, says so, and waits to be killed.
func see(how string) error {
	dir := os.Getenv(seesVariable + "_DIR")
	var err error
	switch how {
	case "another root":
		err = unix.Chroot(dir)
	case "another directory":
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, "")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", how, err)
	}
	return process.Ready()
}

// TestElsewhere: a process is elsewhere if it sees another file tree, or another file at the path in the same
// tree, whatever its arguments are.
func TestElsewhere(t *testing.T) {
	for how, want := range map[string]bool{
		"the same": false, "the same, in a mount namespace of its own": false,
		"another root": true, "another directory": true,
	} {
		t.Run(how, func(t *testing.T) {
			if how != "the same" && os.Geteuid() != 0 {
				t.Skip("makes mount namespaces, which needs root")
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			c := exec.CommandContext(t.Context(), "/proc/self/exe")
			c.Env = append(os.Environ(), seesVariable+"="+how, seesVariable+"_DIR="+dir)
			if how != "the same" {
				// Go makes mounts of a new namespace private.
				c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			}
			process.StartReady(t, c)
			seen := filepath.Join("/proc", strconv.Itoa(c.Process.Pid))
			if got := Elsewhere(seen, path); got != want {
				t.Errorf("elsewhere: %v, want %v", got, want)
			}
			if Elsewhere(seen, filepath.Join(dir, "none")) != (how == "another root") {
				t.Error("a path where there is nothing tells them apart")
			}
		})
	}
	if Elsewhere("/proc/none", "/") {
		t.Error("a process that has ended is elsewhere")
	}
}

// TestArgumentsAreBounded: a process can say that its arguments are what it has mapped, without touching it.
func TestArgumentsAreBounded(t *testing.T) {
	args, err := Arguments("/proc/self")
	if err != nil || !slices.Equal(args, os.Args) {
		t.Errorf("%v, %v, want %v", args, err, os.Args)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "cmdline"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if args, err := Arguments(dir); err != nil || len(args) != 0 {
		t.Errorf("of none: %v, %v", args, err)
	}
	if err := os.Truncate(filepath.Join(dir, "cmdline"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if args, err := Arguments(dir); err != nil || len(args) != maxArguments {
		t.Errorf("of a terabyte: %d, %v", len(args), err)
	}
}
