package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/a4s-io/a4s/internal/component"
)

// Limits of a child's log: size of a file in MB and rotated files kept.
const (
	logMegabytes = 50
	logBackups   = 3
)

// killGrace is how long a SIGKILL may take to have its effect.
const killGrace = 5 * time.Second

// Process is a child to be.
type Process struct {
	// Name is what messages call it.
	Name string
	// Path, Args and Env are those of exec.Cmd.
	Path string
	Args []string
	Env  []string
	// LogFile receives what it writes, and is rotated.
	LogFile string
	// Output receives what it writes if there is no LogFile.
	Output io.Writer
	// Input, if set, is what it reads. Run closes it.
	Input *os.File
	// Files are open files that it has from file descriptor 3 on.
	Files []*os.File
	// DeathSignal is what it gets when this process is gone. Without one it is
	// SIGTERM: what it does is finished, and one that does not end is dealt with
	// at the next start.
	DeathSignal syscall.Signal
	// StopGrace is how long it has to end after SIGTERM before it is killed.
	StopGrace time.Duration
	// Started, if set, is called with its process id before anything else. An
	// error of it ends the child.
	Started func(pid int) error
	// Serving returns nil when the child serves, or an error when ctx ends.
	Serving func(ctx context.Context) error
	Log     *logrus.Entry
}

// StopTimeout is how long Run takes to return when its context has ended, at
// most.
func (p Process) StopTimeout() time.Duration { return p.StopGrace + 2*killGrace }

// Run runs the child until ctx ends, and calls ready when it serves. An end of
// the child by itself is an error, with the last lines of its log file.
func (p Process) Run(ctx context.Context, ready func()) error {
	output, last := p.Output, &tail{}
	if p.LogFile != "" {
		logfile := &lumberjack.Logger{Filename: p.LogFile, MaxSize: logMegabytes, MaxBackups: logBackups}
		defer func() {
			if err := logfile.Close(); err != nil {
				p.Log.WithError(err).Warnf("closing %s", p.LogFile)
			}
		}()
		output = io.MultiWriter(logfile, last)
	}
	if p.DeathSignal == 0 {
		p.DeathSignal = syscall.SIGTERM
	}
	cmd := &exec.Cmd{
		Path: p.Path, Args: p.Args, Env: p.Env, Dir: "/",
		Stdout: output, ExtraFiles: p.Files,
		SysProcAttr: &syscall.SysProcAttr{
			// Ctrl-C in a terminal must reach a4s only: it ends its children
			// in order.
			Setpgid:   true,
			Pdeathsig: p.DeathSignal,
		},
		// A grandchild may hold the log pipe open.
		WaitDelay: time.Second,
	}
	cmd.Stderr = cmd.Stdout
	if p.Input != nil {
		cmd.Stdin = p.Input
		defer p.Input.Close() //nolint:errcheck // it was only read
	}
	ended, err := start(cmd)
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	if p.Started != nil {
		if err := p.Started(cmd.Process.Pid); err != nil {
			return errors.Join(err, p.stop(cmd.Process, ended))
		}
	}
	p.Log.WithField("pid", cmd.Process.Pid).Debug("started")

	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	serving := make(chan error, 1)
	go func() { serving <- p.Serving(waitCtx) }()
	for {
		select {
		case err := <-serving:
			if err == nil {
				ready()
			} // else the context ended, or the child did
			serving = nil
		case err := <-ended:
			if err == nil {
				err = component.ErrExited
			}
			if p.LogFile == "" {
				return fmt.Errorf("%s ended: %w", p.Name, err)
			}
			return fmt.Errorf("%s ended: %w; last lines of %s:\n%s", p.Name, err, p.LogFile, last)
		case <-ctx.Done():
			return p.stop(cmd.Process, ended)
		}
	}
}

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

func (p Process) stop(process *os.Process, ended <-chan error) error {
	for _, step := range []struct {
		signal os.Signal
		grace  time.Duration
	}{{unix.SIGTERM, p.StopGrace}, {unix.SIGKILL, killGrace}} {
		if err := process.Signal(step.signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stopping %s: %w", p.Name, err)
		}
		select {
		case <-ended: // how it ended after our signal says nothing new
			return nil
		case <-time.After(step.grace):
			p.Log.Warnf("did not end within %s of %s", step.grace, step.signal)
		}
	}
	return fmt.Errorf("%s survived SIGKILL", p.Name)
}

// Env is environ without what is not a child's business: a4s' own variables,
// of which one may hold the token, and systemd's conversation with a4s.
func Env(environ []string) []string {
	var env []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "A4S_") || name == "NOTIFY_SOCKET" || strings.HasPrefix(name, "WATCHDOG_") ||
			strings.HasPrefix(name, "LISTEN_") {
			continue
		}
		env = append(env, entry)
	}
	return env
}
