//go:build linux

package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A program that has just been started may not have got to its signal handlers,
// and an emulated machine gives it time for that slowly.
const (
	settleTime     = 5 * time.Second // since the start
	settleInterval = 20 * time.Millisecond
)

// settle waits until a program that was just started can take a signal. The
// first process of a PID namespace does not get one that it has no handler for:
// it would be lost, and the program killed after its whole grace period.
func settle(pid, signal int, started time.Time) {
	for time.Since(started) < settleTime && drops(pid, signal) {
		time.Sleep(settleInterval)
	}
}

// drops says whether a signal to the process would be lost.
func drops(pid, signal int) bool {
	if signal == int(unix.SIGKILL) || signal == int(unix.SIGSTOP) {
		return false
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && dropsSignal(string(data), signal)
}

// dropsSignal is drops for the content of /proc/PID/status.
func dropsSignal(status string, signal int) bool {
	first, handled := false, false
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "NSpid": // in each namespace, the innermost last
			f := strings.Fields(value)
			first = len(f) > 1 && f[len(f)-1] == "1"
		case "SigCgt", "SigIgn":
			mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			handled = handled || err == nil && mask&(1<<(signal-1)) != 0
		}
	}
	return first && !handled
}
