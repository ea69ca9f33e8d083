//go:build linux

package machine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

// What this program does as another process: its first argument.
const (
	// StageProcess prepares a container's process and becomes it.
	StageProcess = "stage-process"
	// StagePause is process 1 of a PID namespace that containers share.
	StagePause = "stage-pause"
)

// The descriptors of StageProcess beyond the standard ones.
const (
	stageStatus = 3 // a socket to say how it went
	stagePlan   = 4 // a pipe with the plan
	stageTarget = 5 // the process whose namespaces are to be joined, if any
)

// plan is what StageProcess is told.
type plan struct {
	Container protocol.Container `json:"container"`
	Process   protocol.Process   `json:"process"`
	Hostname  string             `json:"hostname"`
	// Join says that the container's namespaces exist already.
	Join bool `json:"join"`
}

// report is what StageProcess says: once before it executes the program, and
// again if that failed.
type report struct {
	Code  string   `json:"code,omitempty"`
	Error string   `json:"error,omitempty"`
	UID   uint32   `json:"uid"`
	GIDs  []uint32 `json:"gids,omitempty"`
}

// maxReport is the size of the largest report.
const maxReport = 32 << 10

// Start implements server.Machine.
func (m *Machine) Start(c protocol.Container, stdio server.Stdio) (server.Proc, error) {
	m.mu.Lock()
	pidNS := m.pidNS
	hostname := m.sandbox.Hostname
	m.mu.Unlock()
	started, err := m.spawn(plan{Container: c, Process: c.Process, Hostname: hostname}, stdio,
		spawnOptions{pidNS: pidNS})
	if err != nil {
		return server.Proc{}, err
	}
	m.setRoot(c.ID, started.handle)
	return started.proc(m, c.ID), nil
}

// Exec implements server.Machine.
func (m *Machine) Exec(c protocol.Container, p protocol.Process, stdio server.Stdio) (server.Proc, error) {
	// A descriptor of our own, which lives as long as we need it.
	m.mu.Lock()
	var target *os.File
	var err error
	if root := m.roots[c.ID]; root != nil {
		target, err = duplicate(root)
	}
	hostname := m.sandbox.Hostname
	m.mu.Unlock()
	if err != nil {
		return server.Proc{}, err
	}
	if target == nil {
		return server.Proc{}, server.Errorf(protocol.CodeState, "container %s is not running", c.ID)
	}
	defer target.Close()
	started, err := m.spawn(plan{Container: c, Process: p, Hostname: hostname, Join: true}, stdio,
		spawnOptions{target: target})
	if err != nil {
		return server.Proc{}, err
	}
	_ = started.handle.Close()
	return started.proc(m, ""), nil
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// spawnOptions say which namespaces a process gets.
type spawnOptions struct {
	pidNS  *os.File // the one that the pod's containers share
	target *os.File // a process whose namespaces are joined
}

// spawned is a process that executes its program.
type spawned struct {
	pid    int
	handle *os.File
	at     time.Time
	report report
	tty    *os.File
	exited <-chan syscall.WaitStatus
}

func (s *spawned) proc(m *Machine, container string) server.Proc {
	return server.Proc{
		Started: protocol.Started{Pid: s.pid, At: s.at, UID: s.report.UID, GIDs: s.report.GIDs},
		TTY:     s.tty,
		Wait: func() protocol.Exit {
			exit := exitOf(<-s.exited)
			exit.OOM = container != "" && exit.Signal == int(unix.SIGKILL) && ranOutOfMemory(container)
			return exit
		},
		Signal: func(signal int) error {
			settle(s.pid, signal, s.at)
			err := m.reaper.signal(s.pid, signal)
			if errors.Is(err, os.ErrProcessDone) {
				return server.Errorf(protocol.CodeState, "the process has ended")
			}
			return err
		},
	}
}

// spawn starts a process and waits until it executes its program.
func (m *Machine) spawn(p plan, stdio server.Stdio, o spawnOptions) (*spawned, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "status"), os.NewFile(uintptr(pair[1]), "status")
	defer ours.Close()
	defer theirs.Close()
	planReader, planWriter, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer planReader.Close()
	defer planWriter.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	cgroup, err := os.Open(cgroupOf(p.Container.ID))
	if err != nil {
		return nil, server.Errorf(protocol.CodeState, "container %s: %w", p.Container.ID, err)
	}
	defer cgroup.Close()

	files := []uintptr{null.Fd(), null.Fd(), null.Fd(), theirs.Fd(), planReader.Fd()}
	for i, f := range []*os.File{stdio.Stdin, stdio.Stdout, stdio.Stderr} {
		if f != nil {
			files[i] = f.Fd()
		}
	}
	attr := &syscall.ProcAttr{
		Files: files,
		// The runtime of this one short-lived process should not spread.
		Env: []string{"GOMAXPROCS=1", "GOGC=off"},
		Sys: &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(cgroup.Fd())},
	}
	switch {
	case o.target != nil:
		attr.Files = append(attr.Files, o.target.Fd())
	case o.pidNS != nil:
		attr.Sys.Cloneflags = unix.CLONE_NEWNS
	default:
		attr.Sys.Cloneflags = unix.CLONE_NEWNS | unix.CLONE_NEWPID
	}
	pid, exited, err := m.reaper.start(func() (int, error) { return forkIn(o, attr) })
	if err != nil {
		return nil, fmt.Errorf("starting a process of container %s: %w", p.Container.ID, err)
	}
	s := &spawned{pid: pid, exited: exited}
	_ = theirs.Close()
	_ = planReader.Close()
	if err := s.begin(p, planWriter, ours); err != nil {
		_ = m.reaper.signal(pid, int(unix.SIGKILL))
		<-exited
		if s.tty != nil {
			_ = s.tty.Close()
		}
		if s.handle != nil {
			_ = s.handle.Close()
		}
		return nil, err
	}
	return s, nil
}

// forkIn starts this program again. Its PID namespace is that of the thread that
// starts it, so the thread enters it for a moment.
func forkIn(o spawnOptions, attr *syscall.ProcAttr) (int, error) {
	argv := []string{Program, StageProcess}
	ns := o.pidNS
	if ns == nil {
		ns = o.target
	}
	if ns == nil {
		return syscall.ForkExec(Program, argv, attr)
	}
	type result struct {
		pid int
		err error
	}
	done := make(chan result)
	go func() {
		// Not unlocked unless the thread is as it was: it ends with this goroutine.
		runtime.LockOSThread()
		own, err := os.Open("/proc/thread-self/ns/pid")
		if err != nil {
			done <- result{0, err}
			return
		}
		defer own.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWPID); err != nil {
			done <- result{0, fmt.Errorf("entering the PID namespace: %w", err)}
			return
		}
		pid, err := syscall.ForkExec(Program, argv, attr)
		if unix.Setns(int(own.Fd()), unix.CLONE_NEWPID) == nil {
			runtime.UnlockOSThread()
		}
		done <- result{pid, err}
	}()
	r := <-done
	return r.pid, r.err
}

// begin tells the process what to do, and listens how it goes.
func (s *spawned) begin(p plan, to io.WriteCloser, from *os.File) error {
	fd, err := unix.PidfdOpen(s.pid, 0)
	if err != nil {
		return err
	}
	s.handle = os.NewFile(uintptr(fd), "process")
	if err := protocol.WriteMessage(to, p); err != nil {
		return fmt.Errorf("handing over the plan: %w", err)
	}
	_ = to.Close()
	first, tty, err := receive(from)
	s.tty = tty
	if err == nil && first.Error == "" {
		s.report = first
		// The end of the socket is the beginning of the program.
		var second report
		second, _, err = receive(from)
		if errors.Is(err, io.EOF) {
			s.at = time.Now()
			return nil
		}
		first = second
	}
	if err != nil {
		return fmt.Errorf("the process ended before its program began: %w", err)
	}
	return server.Errorf(first.Code, "%s", first.Error)
}

// receive reads a report, and the terminal that may come with it.
func receive(from *os.File) (report, *os.File, error) {
	buf, oob := make([]byte, maxReport), make([]byte, unix.CmsgSpace(4))
	var n, oobn int
	var err error
	for {
		n, oobn, _, _, err = unix.Recvmsg(int(from.Fd()), buf, oob, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return report{}, nil, err
	}
	if n == 0 {
		return report{}, nil, io.EOF
	}
	r, err := parseReport(buf[:n])
	if err != nil || oobn == 0 {
		return r, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) == 0 {
		return r, nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return r, nil, err
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return r, nil, err
	}
	return r, os.NewFile(uintptr(fds[0]), "terminal"), nil
}
