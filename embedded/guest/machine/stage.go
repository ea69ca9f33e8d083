//go:build linux

package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

func parseReport(b []byte) (report, error) {
	var r report
	err := json.Unmarshal(b, &r)
	return r, err
}

// say sends a report, with a descriptor if it is not negative.
func say(r report, fd int) error {
	if len(r.Error) > maxReport/2 {
		r.Error = r.Error[:maxReport/2]
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var oob []byte
	if fd >= 0 {
		oob = unix.UnixRights(fd)
	}
	return unix.Sendmsg(stageStatus, data, oob, nil, 0)
}

// Stage is StageProcess. It returns only if something went wrong, which it said.
func Stage() {
	// Namespaces, capabilities and users are of a thread; what is executed is
	// this one.
	runtime.LockOSThread()
	err := stage()
	code := protocol.CodeInternal
	var e *server.Error
	if errors.As(err, &e) {
		code = e.Code
	}
	_ = say(report{Code: code, Error: err.Error()}, -1)
}

// stage becomes the container's program, or returns why not.
func stage() error {
	for _, fd := range []int{stageStatus, stagePlan, stageTarget} {
		unix.CloseOnExec(fd)
	}
	in := os.NewFile(stagePlan, "plan")
	var p plan
	if err := protocol.ReadMessage(in, &p); err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	_ = in.Close()
	// The container's processes are not to reach this program through /proc.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	if err := setOOMScore(p.Process); err != nil {
		return err
	}
	if err := p.namespaces(); err != nil {
		return err
	}
	proc := p.Process
	who, err := resolveUser(proc.User)
	if err != nil {
		return err
	}
	env := defaultEnv(proc, p.Hostname, who.home)
	tty := -1
	if proc.TTY {
		if tty, err = openTTY(proc.Size, who.uid, !p.Join); err != nil {
			return fmt.Errorf("terminal: %w", err)
		}
	}
	if err := setLimits(proc); err != nil {
		return err
	}
	if err := enterDir(proc.Cwd, who); err != nil {
		return err
	}
	path, err := lookPath(proc.Args[0], env)
	if err != nil {
		return err
	}
	if !p.Join {
		// Last, because until now what was missing was made.
		if err := p.protect(); err != nil {
			return err
		}
	}
	if err := say(report{UID: who.uid, GIDs: who.groups()}, tty); err != nil {
		return err
	}
	if tty >= 0 {
		_ = unix.Close(tty)
	}
	if err := become(who, proc, p.Container.Privileged); err != nil {
		return err
	}
	err = syscall.Exec(path, proc.Args, env)
	return server.Errorf(protocol.CodeNoExecutable, "executing %s: %w", path, err)
}

// namespaces makes the container's namespaces whole, or enters them.
func (p plan) namespaces() error {
	if p.Join {
		// The file system is not to be shared with the other threads.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return err
		}
		err := unix.Setns(stageTarget, unix.CLONE_NEWNS|unix.CLONE_NEWCGROUP)
		if errors.Is(err, unix.ESRCH) {
			return server.Errorf(protocol.CodeState, "the container has ended")
		}
		if err != nil {
			return fmt.Errorf("entering the container: %w", err)
		}
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("cgroup namespace: %w", err)
	}
	return p.mounts()
}

// defaultEnv completes the environment.
func defaultEnv(p protocol.Process, hostname, home string) []string {
	env := append([]string(nil), p.Env...)
	add := func(name, value string) {
		for _, e := range p.Env {
			if strings.HasPrefix(e, name+"=") {
				return
			}
		}
		env = append(env, name+"="+value)
	}
	add("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	add("HOME", home)
	add("HOSTNAME", hostname)
	if p.TTY {
		add("TERM", "xterm")
	}
	return env
}

// enterDir makes the working directory, if it is missing, and enters it.
func enterDir(dir string, who identity) error {
	if dir == "" {
		dir = "/"
	}
	if !filepath.IsAbs(dir) {
		return server.Errorf(protocol.CodeInvalid, "working directory %q is not absolute", dir)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return server.Errorf(protocol.CodeInvalid, "working directory: %w", err)
		}
		if err := os.Chown(dir, int(who.uid), int(who.gid)); err != nil {
			return err
		}
	}
	if err := unix.Chdir(dir); err != nil {
		return server.Errorf(protocol.CodeInvalid, "working directory %s: %w", dir, err)
	}
	return nil
}

// lookPath finds the program the way a shell does.
func lookPath(name string, env []string) (string, error) {
	if name == "" {
		return "", server.Errorf(protocol.CodeNoExecutable, "the command is empty")
	}
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", server.Errorf(protocol.CodeNoExecutable, "exec %q: %w", name, err)
		}
		return name, nil
	}
	var path string
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			path = value
		}
	}
	var denied error
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		file := filepath.Join(dir, name)
		if dir == "." {
			file = "./" + name
		}
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	if denied != nil {
		return "", server.Errorf(protocol.CodeNoExecutable, "exec %q: %w", name, denied)
	}
	return "", server.Errorf(protocol.CodeNoExecutable, "exec %q: executable file not found in $PATH", name)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &fs.PathError{Op: "exec", Path: path, Err: unix.EISDIR}
	}
	if info.Mode().Perm()&0o111 == 0 {
		return &fs.PathError{Op: "exec", Path: path, Err: fs.ErrPermission}
	}
	return nil
}

// openTTY makes a terminal the standard streams. It returns its other end.
func openTTY(size *protocol.TerminalSize, uid uint32, console bool) (int, error) {
	ptmx, err := unix.Open("/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.IoctlSetPointerInt(ptmx, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	n, err := unix.IoctlGetInt(ptmx, unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	name := fmt.Sprintf("/dev/pts/%d", n)
	pts, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if size != nil {
		ws := unix.Winsize{Row: size.Height, Col: size.Width}
		if err := unix.IoctlSetWinsize(pts, unix.TIOCSWINSZ, &ws); err != nil {
			return -1, err
		}
	}
	if err := unix.Fchown(pts, int(uid), -1); err != nil {
		return -1, err
	}
	for fd := range 3 {
		if err := unix.Dup3(pts, fd, 0); err != nil {
			return -1, err
		}
	}
	if err := unix.IoctlSetInt(0, unix.TIOCSCTTY, 0); err != nil {
		return -1, fmt.Errorf("making it the controlling terminal: %w", err)
	}
	if console {
		if err := bindConsole(name); err != nil {
			return -1, err
		}
	}
	return ptmx, nil
}

// Pause is StagePause: it reaps, as the init of the pod's PID namespace.
func Pause() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	for {
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
		}
		<-signals
	}
}
