package cmd

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/problem"
)

// terminal is one at which somebody has typed something.
func terminal(t *testing.T, typed string) *os.File {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	if _, err := keyboard.WriteString(typed); err != nil {
		t.Fatal(err)
	}
	return tty
}

// TestTenantDeleteAsks: a tenant in which pods run is deleted from a terminal by its name alone.
func TestTenantDeleteAsks(t *testing.T) {
	for name, tc := range map[string]struct {
		typed   string // at a terminal, "" for none
		flags   []string
		pods    int
		asks    string
		deletes bool
	}{
		"its name":             {"t1\n", nil, 3, "3 pods run in tenant t1", true},
		"another":              {"t2\n", nil, 1, "1 pod runs in tenant t1", false},
		"yes is no name":       {"yes\n", nil, 1, "Type the name", false},
		"nothing":              {"\n", nil, 1, "Type the name", false},
		"the end":              {"\x04", nil, 1, "Type the name", false},
		"nothing runs":         {"no\n", nil, 0, "", true},
		"nobody sees it":       {"no\n", nil, -1, "cannot be seen", false},
		"with --yes":           {"no\n", []string{"--yes"}, 3, "", true},
		"without waiting":      {"no\n", []string{"--wait=false"}, 3, "Type the name", false},
		"without a terminal":   {"", nil, 3, "", true},
		"the name of a script": {"", []string{"--yes"}, 3, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeTenants(t, "t1")
			f.pods = tc.pods
			in := os.Stdin
			if tc.typed != "" {
				in = terminal(t, tc.typed)
			} else {
				var err error
				if in, err = os.Open(os.DevNull); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = in.Close() })
			}
			_, _, stderr, err := runWith(t, in, append([]string{"tenant", "delete", "t1", "--kubeconfig",
				f.kubeconfig}, tc.flags...)...)
			if asked := strings.Contains(stderr, "Type the name"); asked != (tc.asks != "") ||
				!strings.Contains(stderr, tc.asks) {
				t.Errorf("says %q", stderr)
			}
			if tc.deletes != (err == nil) || tc.deletes == (f.tenants["t1"] != nil) {
				t.Errorf("deleted %t: %v", f.tenants["t1"] == nil, err)
			}
			var input *problem.Input
			if !tc.deletes && (!errors.Is(err, errNotConfirmed) || !errors.As(err, &input) ||
				!strings.Contains(err.Error(), "--yes")) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestTenantDeleteIsRefused: what the API says of a protected tenant is what the command says, and
// nobody types a name for nothing.
func TestTenantDeleteIsRefused(t *testing.T) {
	f := newFakeTenants(t, "t1")
	f.pods = 1
	f.tenants["t1"].Spec.DeletionProtection = new(true)
	_, _, stderr, err := runWith(t, terminal(t, "t1\n"), "tenant", "delete", "t1", "--kubeconfig", f.kubeconfig)
	if err == nil || !strings.Contains(err.Error(), "spec.deletionProtection is true") ||
		strings.Contains(err.Error(), "--kubeconfig") || strings.Contains(stderr, "Type the name") {
		t.Errorf("%v\n%s", err, stderr)
	}
}
