//go:build linux

package machine

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestSignalsThatWouldBeLost(t *testing.T) {
	const term = "0000000000004000"
	const none = "0000000000000000"
	status := func(pids, caught, ignored string) string {
		return "Name:\tx\nNSpid:\t" + pids + "\nSigIgn:\t" + ignored + "\nSigCgt:\t" + caught + "\n"
	}
	for name, tc := range map[string]struct {
		status string
		want   bool
	}{
		"first, no handler":    {status("40\t1", none, none), true},
		"first, handler":       {status("40\t1", term, none), false},
		"first, ignores it":    {status("40\t1", none, term), false},
		"one of many":          {status("40\t7", none, none), false},
		"of the machine's own": {status("1", none, none), false},
		"ended":                {"", false},
	} {
		if got := dropsSignal(tc.status, int(unix.SIGTERM)); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
