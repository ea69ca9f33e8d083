package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/problem"
)

// leftoverGrace is how long a leftover gets to end by itself: its parent's
// death has sent it SIGTERM already.
const leftoverGrace = 5 * time.Second

// endLeftover ends a containerd that a killed a4s left on the same
// configuration file, since two of them must not share a directory. It is
// known by its command line, which names that file, and by that it sees the same file: a container
// may have the same command line, and its own file there.
func endLeftover(ctx context.Context, configFile string, log *logrus.Entry) error {
	pids, err := findByArgs(childArgs(configFile), configFile)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return fmt.Errorf("opening process %d: %w", pid, err)
		}
		err = endProcess(ctx, pid, fd, configFile, log)
		if closeErr := unix.Close(fd); err == nil && closeErr != nil {
			err = fmt.Errorf("closing process %d: %w", pid, closeErr)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func endProcess(ctx context.Context, pid, fd int, configFile string, log *logrus.Entry) error {
	if owner := owner(pid); owner != 0 {
		return &problem.Precondition{
			What: fmt.Sprintf("containerd with %s runs already", configFile),
			Fix:  fmt.Sprintf("stop the a4s with process id %d, or give this one another --data-dir", owner),
		}
	}
	log.WithField("pid", pid).Info("ending the containerd that a previous a4s left behind")
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := unix.PidfdSendSignal(fd, signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("sending %s to the containerd left behind (process %d): %w", signal, pid, err)
		}
		ended, err := waitEnd(ctx, fd, leftoverGrace)
		if err != nil {
			return fmt.Errorf("waiting for the containerd left behind (process %d): %w", pid, err)
		}
		if ended {
			return nil
		}
	}
	return &problem.Precondition{
		What: fmt.Sprintf("the containerd left behind by a previous a4s (process %d) does not end", pid),
		Fix:  "find out what it waits for, or restart the machine",
	}
}

// waitEnd waits until the process of a pidfd has ended.
func waitEnd(ctx context.Context, fd int, timeout time.Duration) (bool, error) {
	const step = 100 * time.Millisecond // how often ctx is looked at
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(step.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, err
		}
		if n > 0 {
			return true, nil
		}
	}
	return false, nil
}

// findByArgs returns the processes with exactly these arguments that see the same file.
func findByArgs(args []string, file string) ([]int, error) {
	const proc = "/proc"
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("looking for a containerd left behind: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join(proc, entry.Name())
		if instance.Elsewhere(dir, file) {
			continue
		}
		found, err := instance.Arguments(dir)
		if err != nil {
			continue // it ended meanwhile
		}
		if slices.Equal(found, args) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// owner returns the running a4s that is the parent of a containerd, or 0 when
// that has been orphaned or is our own. Parent and child are the same binary.
func owner(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name in parentheses may hold anything; state and parent follow it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil || parent <= 1 || parent == os.Getpid() {
		return 0
	}
	own, err1 := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	theirs, err2 := os.Readlink(fmt.Sprintf("/proc/%d/exe", parent))
	if err1 != nil || err2 != nil ||
		strings.TrimSuffix(own, " (deleted)") != strings.TrimSuffix(theirs, " (deleted)") {
		return 0
	}
	return parent
}
