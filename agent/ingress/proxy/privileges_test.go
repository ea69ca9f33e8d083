package proxy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDropPrivileges does it in a process of its own.
func TestDropPrivileges(t *testing.T) {
	const child = "A4S_TEST_DROP_PRIVILEGES"
	if os.Getenv(child) == "" {
		if os.Geteuid() != 0 {
			t.Skip("there are none to give up")
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDropPrivileges$")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	if err := DropPrivileges(); err != nil {
		t.Fatal(err)
	}
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(threads) < 2 {
		t.Fatalf("threads %v, %v", threads, err)
	}
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if os.IsNotExist(err) {
			continue // it ended
		} else if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"\nUid:\t65534\t65534\t65534\t65534\n", "\nGid:\t65534\t65534\t65534\t65534\n", "\nGroups:\t \n",
			"\nCapPrm:\t0000000000000000\n",
		} {
			if !strings.Contains(string(status), want) {
				t.Errorf("%s has no %q", status, want)
			}
		}
	}
	if err := DropPrivileges(); err != nil {
		t.Error(err)
	}
}
