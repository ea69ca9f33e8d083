package containerd

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/tests/process"
)

// These make the test binary a process with a child that has the command line of a containerd, and that child.
const (
	parentVariable = "A4S_TEST_PARENT_OF"
	childVariable  = "A4S_TEST_CONTAINERD"
)

func TestMain(m *testing.M) {
	var err error
	switch {
	case os.Getenv(childVariable) != "":
		err = lookLikeContainerd()
	case os.Getenv(parentVariable) != "":
		err = beParent(os.Getenv(parentVariable))
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// beParent runs the child until the input ends.
func beParent(configFile string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.Command(self)
	c.Args = childArgs(configFile)
	c.Env = append(os.Environ(), childVariable+"=yes")
	c.Stdin, c.Stdout = os.Stdin, os.Stdout
	return c.Run()
}

// lookLikeContainerd says that it runs and waits for the end of the input, in the root directory that it is told.
func lookLikeContainerd() error {
	if dir := os.Getenv("A4S_TEST_ROOT"); dir != "" {
		if err := unix.Chroot(dir); err != nil {
			return err
		}
	}
	return process.Ready()
}

// TestLeftoverIsOfThisMachine: the containerd of another a4s on the same configuration is found, but not what
// a container runs with the same command line: a tenant could keep a node from starting with it.
func TestLeftoverIsOfThisMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("changes the root directory of a process, which needs root")
	}
	for _, root := range []string{"", t.TempDir()} {
		configFile := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(configFile, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), "/proc/self/exe")
		c.Env = append(os.Environ(), parentVariable+"="+configFile, "A4S_TEST_ROOT="+root)
		process.StartReady(t, c)
		err := endLeftover(t.Context(), configFile, logrus.NewEntry(logrus.StandardLogger()))
		runs := &problem.Precondition{}
		switch {
		case root == "" && !errors.As(err, &runs):
			t.Errorf("the containerd of an a4s that runs: %v", err)
		case root != "" && err != nil:
			t.Errorf("what a container runs: %v", err)
		}
		if pids, err := findByArgs(childArgs(configFile), configFile); err != nil || (root == "") != (len(pids) == 1) {
			t.Errorf("in %q: %v, %v", root, pids, err)
		}
	}
}
