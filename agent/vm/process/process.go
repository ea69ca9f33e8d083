package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/atomicfile"
)

// ErrGone says that the process of a file has ended, or that the file does not
// exist.
var ErrGone = errors.New("the process has ended")

// Spec says what to start.
type Spec struct {
	// PIDFile is written as soon as the process runs.
	PIDFile string
	// Path is the program, Args are what follows its name.
	Path string
	Args []string
	// Dir is its working directory.
	Dir string
	// Env is its environment; none is inherited.
	Env []string
	// Files are its descriptors from 3 on.
	Files []*os.File
	// Log is the file that its output is appended to; empty discards it.
	Log string
}

// firstFile is the first descriptor beyond input and output.
const firstFile = 3

// Process is a process that may have been started by another one.
type Process struct {
	pid   int
	ident identity
	fd    *os.File
	done  chan struct{}
}

// Start starts a process in a session of its own, with an OOM score of 0.
func Start(s Spec) (_ *Process, err error) {
	cmd := exec.Command(s.Path, s.Args...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = s.Dir, s.Env, s.Files
	if cmd.Env == nil {
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if s.Log != "" {
		log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		defer func() { _ = log.Close() }() // the process has its own
		cmd.Stdout, cmd.Stderr = log, log
	}
	// Go closes its own files in a child, but not what this process was given
	// by its parent.
	if err := unix.CloseRange(firstFile, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("closing files in children: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.Path, err)
	}
	// It is our child until we end; somebody has to take its status.
	reaped := make(chan struct{})
	defer func() {
		if err != nil {
			_ = cmd.Process.Kill() // reports only that it has ended
			<-reaped
		}
	}()
	pid := cmd.Process.Pid
	p, err := open(pid) // before the status is taken, so it is this one
	if err == nil {
		// This process has the node's, or a neutral one, by when it was started.
		if err = p.SetOOMScore(0); err != nil {
			err = errors.Join(err, p.fd.Close())
		}
	}
	go func() {
		defer close(reaped)
		_ = cmd.Wait() // its end is seen through the descriptor
	}()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.Path, err)
	}
	if err := atomicfile.Write(s.PIDFile, []byte(p.ident.String()+"\n"), 0o600); err != nil {
		return nil, errors.Join(err, p.fd.Close())
	}
	return p, nil
}

// Open finds the process of the file again. It returns ErrGone if that has
// ended.
func Open(pidFile string) (*Process, error) {
	data, err := os.ReadFile(pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", pidFile, ErrGone)
	}
	if err != nil {
		return nil, err
	}
	want, err := parseIdentity(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pidFile, err)
	}
	p, err := open(want.pid)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pidFile, err)
	}
	if p.ended() { // but nobody took its status yet
		return nil, errors.Join(fmt.Errorf("%s: %w", pidFile, ErrGone), p.fd.Close())
	}
	if p.ident != want {
		return nil, errors.Join(fmt.Errorf("%s: process %d is another one: %w", pidFile, want.pid, ErrGone),
			p.fd.Close())
	}
	return p, nil
}

// In returns the processes whose working directory is dir or below: those that
// were started there, also if nobody came to write down that they were.
func In(dir string) ([]*Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []*Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !worksIn(pid, dir) {
			continue
		}
		p, err := open(pid)
		if err != nil {
			continue // it has ended
		}
		if !worksIn(pid, dir) { // the one that was looked at has ended, and this is another
			_ = p.Close() // it was only looked at
			continue
		}
		found = append(found, p)
	}
	return found, nil
}

func worksIn(pid int, dir string) bool {
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return false // it has ended, or is a kernel thread
	}
	cwd = strings.TrimSuffix(cwd, " (deleted)")
	return cwd == dir || strings.HasPrefix(cwd, dir+"/")
}

func open(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("opening process %d: %w", pid, err)
	}
	file := os.NewFile(uintptr(fd), "pidfd "+strconv.Itoa(pid))
	ident, err := identify(pid)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p := &Process{pid: pid, ident: ident, fd: file, done: make(chan struct{})}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	go func() {
		// The runtime's poller waits, not a thread.
		err := conn.Read(func(fd uintptr) bool { return ended(int(fd)) })
		if err == nil {
			close(p.done)
		}
	}()
	return p, nil
}

// ended reports whether the process of the descriptor has ended.
func ended(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && n == 1
	}
}

// PID is the process's id.
func (p *Process) PID() int { return p.pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Alive reports whether the process runs.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return !p.ended()
	}
}

// ended asks the kernel, which knows it before Done is closed.
func (p *Process) ended() (over bool) {
	conn, err := p.fd.SyscallConn()
	if err != nil {
		return false
	}
	if err := conn.Control(func(fd uintptr) { over = ended(int(fd)) }); err != nil {
		return false // it was let go of
	}
	return over
}

// Signal sends a signal. A process that has ended is no error.
func (p *Process) Signal(sig unix.Signal) error {
	conn, err := p.fd.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	if errors.Is(sent, unix.ESRCH) {
		sent = nil
	}
	if err := errors.Join(err, sent); err != nil {
		return fmt.Errorf("signal to process %d: %w", p.pid, err)
	}
	return nil
}

// SignalChildren sends a signal to the children of the process, and reports
// whether it has any. One that ends its child first leaves nobody else to take
// the status of that.
func (p *Process) SignalChildren(sig unix.Signal) (bool, error) {
	pids, err := children(p.pid)
	if err != nil || !p.Alive() {
		return false, err
	}
	for _, pid := range pids {
		// Their ids are not reused while their parent lives and has not
		// waited for them.
		if err := unix.Kill(pid, sig); err != nil && !errors.Is(err, unix.ESRCH) {
			return true, fmt.Errorf("signal to process %d: %w", pid, err)
		}
	}
	return len(pids) > 0, nil
}

// children returns the ids of a process's children.
func children(pid int) ([]int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, list := range lists {
		data, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(data)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", list, err)
			}
			pids = append(pids, child)
		}
	}
	return pids, nil
}

// Wait returns when the process has ended, or with the context's error.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the end of process %d: %w", p.pid, context.Cause(ctx))
	}
}

// Stop asks the process to end, and kills it after the grace period or when
// the context ends. It returns when the process has ended.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	if err := p.Signal(unix.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return p.Kill()
}

// killTimeout is how long the kernel may take to end a killed process.
const killTimeout = 10 * time.Second

// Kill kills the process and returns when it has ended.
func (p *Process) Kill() error {
	if err := p.Signal(unix.SIGKILL); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	return p.Wait(ctx)
}

// Close lets go of the process; it goes on.
func (p *Process) Close() error { return p.fd.Close() }

// Usage is what the process takes.
type Usage struct {
	// CPU is the time it ran.
	CPU time.Duration
	// Memory is its resident set in bytes, Shared the part of it that others
	// may share: files and the memory of a virtual machine.
	Memory, Shared uint64
}

// userHZ is the kernel's unit of times in /proc; it is 100 everywhere.
const userHZ = 100

// Usage reads what the process takes.
func (p *Process) Usage() (Usage, error) {
	fields, err := stat(p.pid)
	if err != nil {
		return Usage{}, err
	}
	user, err1 := strconv.ParseUint(fields[11], 10, 64)
	system, err2 := strconv.ParseUint(fields[12], 10, 64)
	data, err3 := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.pid))
	var resident, shared uint64
	if err3 == nil {
		_, err3 = fmt.Sscanf(string(data), "%d %d %d", new(uint64), &resident, &shared)
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		return Usage{}, fmt.Errorf("reading what process %d takes: %w", p.pid, err)
	}
	if !p.Alive() {
		return Usage{}, ErrGone // the numbers may be another one's
	}
	page := uint64(os.Getpagesize())
	return Usage{CPU: time.Duration(user+system) * (time.Second / userHZ), Memory: resident * page,
		Shared: shared * page}, nil
}

// identity tells a process from a later one with the same id.
type identity struct {
	pid   int
	start uint64 // clock ticks since the boot
	boot  string
}

func (i identity) String() string { return fmt.Sprintf("%d %d %s", i.pid, i.start, i.boot) }

func parseIdentity(s string) (i identity, err error) {
	if _, err := fmt.Sscanf(s, "%d %d %s", &i.pid, &i.start, &i.boot); err != nil {
		return identity{}, fmt.Errorf("no process in %q: %w", strings.TrimSpace(s), err)
	}
	return i, nil
}

func identify(pid int) (identity, error) {
	fields, err := stat(pid)
	if err != nil {
		return identity{}, err
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return identity{}, fmt.Errorf("start time of process %d: %w", pid, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return identity{}, err
	}
	return identity{pid: pid, start: start, boot: strings.TrimSpace(string(boot))}, nil
}

// stat returns the fields of /proc/PID/stat that follow the name, which may
// itself hold blanks and parentheses.
func stat(pid int) ([]string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, err
	}
	s := string(data)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 22 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

// Record writes the file of a process that somebody else started.
func Record(pidFile string, pid int) error {
	ident, err := identify(pid)
	if err != nil {
		return err
	}
	return atomicfile.Write(pidFile, []byte(ident.String()+"\n"), 0o600)
}
