package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/a4s-io/a4s/internal/component"
)

// Name is the name of the component.
const Name = "containerd"

// How long the child gets to end after SIGTERM before it is killed.
const (
	stopGrace = 10 * time.Second
	killGrace = 5 * time.Second // for a SIGKILL to take effect
)

// Limits of containerd's log: size of a file in MB and rotated files kept.
const (
	logMegabytes = 50
	logBackups   = 3
)

// New returns the component that runs containerd as a child process. It is
// ready when the CRI runtime reports itself ready. Pods survive its end.
func New(o Options) component.Component {
	o = o.withDefaults()
	return component.Component{
		Name:        Name,
		StopTimeout: stopGrace + 2*killGrace,
		Run:         o.run,
	}
}

func (o Options) run(ctx context.Context, ready func()) error {
	if err := o.validate(); err != nil {
		return err
	}
	if err := endLeftover(ctx, o.configFile(), o.Log); err != nil {
		return err
	}
	if err := o.writeConfig(); err != nil {
		return err
	}
	logfile := &lumberjack.Logger{Filename: LogFile(o.DataDir), MaxSize: logMegabytes, MaxBackups: logBackups}
	defer func() {
		if err := logfile.Close(); err != nil {
			o.Log.WithError(err).Warn("closing containerd's log")
		}
	}()
	last := &tail{}

	cmd := &exec.Cmd{
		Path:   o.Executable,
		Args:   o.args(),
		Env:    childEnv(os.Environ(), filepath.Dir(o.ShimPath), filepath.Dir(o.RuncPath)),
		Dir:    "/",
		Stdout: io.MultiWriter(logfile, last),
		SysProcAttr: &syscall.SysProcAttr{
			// Ctrl-C in a terminal must reach a4s only: it ends
			// containerd when the kubelet is done.
			Setpgid: true,
			// SIGTERM and not SIGKILL: the database is closed in order,
			// and one that does not end is dealt with at the next start.
			Pdeathsig: syscall.SIGTERM,
		},
		// A grandchild may hold the log pipe open.
		WaitDelay: time.Second,
	}
	cmd.Stderr = cmd.Stdout
	child, err := start(cmd)
	if err != nil {
		return fmt.Errorf("starting containerd: %w", err)
	}
	o.Log.WithField("pid", cmd.Process.Pid).Debug("started")

	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	serving := make(chan error, 1)
	go func() { serving <- waitReady(waitCtx, Socket(o.StateDir), o.Log) }()
	for {
		select {
		case err := <-serving:
			if err == nil {
				ready()
			} // else the context ended, or the child did
			serving = nil
		case err := <-child:
			return exitError(err, last, LogFile(o.DataDir))
		case <-ctx.Done():
			return o.stop(cmd.Process, child)
		}
	}
}

// args is also how a leftover is recognised; see endLeftover.
func (o Options) args() []string { return childArgs(o.configFile()) }

func childArgs(configFile string) []string { return []string{"containerd", "--config", configFile} }

// start runs cmd and delivers its end. The parent death signal is bound to
// the thread that forked, so that thread must live as long as the child.
func start(cmd *exec.Cmd) (<-chan error, error) {
	started := make(chan error)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			done <- cmd.Wait()
		}
	}()
	return done, <-started
}

func (o Options) stop(process *os.Process, child <-chan error) error {
	for _, step := range []struct {
		signal os.Signal
		grace  time.Duration
	}{{unix.SIGTERM, stopGrace}, {unix.SIGKILL, killGrace}} {
		if err := process.Signal(step.signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stopping containerd: %w", err)
		}
		select {
		case <-child: // how it ended after our signal says nothing new
			return nil
		case <-time.After(step.grace):
			o.Log.Warnf("did not end within %s of %s", step.grace, step.signal)
		}
	}
	return errors.New("containerd survived SIGKILL")
}

func exitError(err error, last *tail, logfile string) error {
	if err == nil {
		err = component.ErrExited
	}
	return fmt.Errorf("containerd ended: %w; last lines of %s:\n%s", err, logfile, last)
}

// childEnv is a4s' environment as containerd gets it. As with k3s, a variable
// CONTAINERD_X is passed as X, so that a proxy can be set for containerd only.
// binDirs go first in PATH. After a restart containerd looks there for the shim
// of every container it finds, whatever its configuration says: without it,
// it takes running pods for dead ones. The shim looks there for runc.
func childEnv(environ []string, binDirs ...string) []string {
	var env, own []string
	path := ""
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case name == "PATH":
			path = value
		case name == "CONTAINERD_LOG_LEVEL": // in the configuration
		case name == "NOTIFY_SOCKET", strings.HasPrefix(name, "WATCHDOG_"), strings.HasPrefix(name, "LISTEN_"):
			// systemd's conversation is with a4s, not with containerd.
		case strings.HasPrefix(name, "A4S_"): // may hold the token
		case strings.HasPrefix(name, "CONTAINERD_"):
			own = append(own, strings.TrimPrefix(entry, "CONTAINERD_"))
		default:
			env = append(env, entry)
		}
	}
	// CNI plugins need iptables, which a login PATH may not reach.
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		if !strings.Contains(":"+path+":", ":"+dir+":") {
			path = strings.TrimPrefix(path+":"+dir, ":")
		}
	}
	path = strings.Join(append(slices.Compact(binDirs), path), ":")
	return append(append(env, "PATH="+path), own...)
}
