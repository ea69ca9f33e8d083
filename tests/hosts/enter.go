package hosts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The main thread must never enter a host: /proc/self shows its namespaces,
// and it cannot end before the process does. This keeps it to TestMain.
func init() { runtime.LockOSThread() }

// startInside starts cmd as a process of the host. A child is born into the
// namespaces and cgroups of the thread that starts it, so a thread enters the
// host for that; it is never used again.
func (h *Host) startInside(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	go func() {
		// Without UnlockOSThread the thread ends with this goroutine.
		runtime.LockOSThread()
		result <- h.startFromHere(cmd)
	}()
	return <-result
}

func (h *Host) startFromHere(cmd *exec.Cmd) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, hi := range all {
		if hi.Type == "cgroup" {
			if err := os.WriteFile(filepath.Join(hi.Dir, h.cgroup, "tasks"),
				[]byte(strconv.Itoa(unix.Gettid())), 0); err != nil {
				return fmt.Errorf("entering the cgroup of host %s: %w", h.Name, err)
			}
			continue
		}
		// Version 2 does not move threads, but a child can be born elsewhere.
		dir := filepath.Join(hi.Dir, h.cgroup)
		if len(all) == 1 {
			dir = filepath.Join(dir, initCgroup)
		}
		group, err := os.Open(dir)
		if err != nil {
			return err
		}
		defer group.Close()
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.UseCgroupFD = true
		cmd.SysProcAttr.CgroupFD = int(group.Fd())
	}
	first, err := unix.PidfdOpen(h.init.Process.Pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(first)
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	const all6 = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWCGROUP
	if err := unix.Setns(first, all6); err != nil {
		return fmt.Errorf("entering host %s: %w", h.Name, err)
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	return cmd.Start()
}
