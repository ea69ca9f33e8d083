package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/vm/process"
	"github.com/a4s-io/a4s/internal/component"
)

// Command is the subcommand of a4s that is the runtime service.
const Command = "vm-runtime"

const (
	// stopGrace is how long the child has to finish what it is doing.
	stopGrace = 15 * time.Second
	// leftoverGrace is the same for one that a killed a4s left behind.
	leftoverGrace = 10 * time.Second
	readyInterval = 50 * time.Millisecond
	pidFileName   = "vm-runtime.pid"
	logFileName   = "vm-runtime.log"
	// maxLog is the size in bytes from which a log is put aside at a start.
	maxLog = 50 << 20
)

// Options say how to supervise the runtime service.
type Options struct {
	Service
	// Executable is a4s; empty means this process' own binary, even when it
	// was replaced on disk.
	Executable string
	// Debug raises the log level of the service.
	Debug bool
}

// New returns the component that runs the runtime service as a child process.
// It is ready when that answers. Virtual machines survive its end.
func New(o Options) component.Component {
	o.Service = o.Service.withDefaults()
	if o.Executable == "" {
		o.Executable = "/proc/self/exe"
	}
	return component.Component{Name: Name, StopTimeout: stopGrace + 2*leftoverGrace, Run: o.run}
}

// LogFile is where the service's log goes.
func LogFile(root string) string { return filepath.Join(root, logFileName) }

// PIDFile names the process of the service, for who must end it when its
// supervisor is gone.
func PIDFile(root string) string { return filepath.Join(root, pidFileName) }

func (o Options) run(ctx context.Context, ready func()) error {
	if err := os.MkdirAll(o.Root, 0o711); err != nil {
		return fmt.Errorf("directory of the VM runtime: %w", err)
	}
	if err := o.endLeftover(ctx); err != nil {
		return err
	}
	if st, err := os.Stat(LogFile(o.Root)); err == nil && st.Size() > maxLog {
		if err := os.Rename(LogFile(o.Root), LogFile(o.Root)+".1"); err != nil {
			return fmt.Errorf("log of the VM runtime: %w", err)
		}
	}
	logfile, err := os.OpenFile(LogFile(o.Root), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("log of the VM runtime: %w", err)
	}
	defer logfile.Close()
	cmd := &exec.Cmd{
		Path: o.Executable, Args: o.args(), Env: childEnv(os.Environ()), Dir: "/", Stdout: logfile, Stderr: logfile,
		SysProcAttr: &syscall.SysProcAttr{
			// Ctrl-C in a terminal must reach a4s only.
			Setpgid: true,
			// Without a supervisor it ends; its machines go on.
			Pdeathsig: syscall.SIGTERM,
		},
	}
	child, err := startLocked(cmd)
	if err != nil {
		return fmt.Errorf("starting the VM runtime: %w", err)
	}
	if err := process.Record(PIDFile(o.Root), cmd.Process.Pid); err != nil {
		return errors.Join(err, cmd.Process.Kill(), <-child)
	}
	o.Log.WithField("pid", cmd.Process.Pid).Debug("started")
	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	serving := make(chan error, 1)
	go func() { serving <- waitServing(waitCtx, o.Socket) }()
	for {
		select {
		case err := <-serving:
			if err == nil {
				ready()
			} // else the context ended, or the child did
			serving = nil
		case err := <-child:
			if err == nil {
				err = component.ErrExited
			}
			return fmt.Errorf("the VM runtime ended: %w; end of %s: %s", err, LogFile(o.Root), lastLine(LogFile(o.Root)))
		case <-ctx.Done():
			return stopChild(cmd.Process, child, o.Log)
		}
	}
}

// startLocked starts cmd and delivers its end. The parent death signal is
// bound to the thread that forked, so that must live as long as the child.
func startLocked(cmd *exec.Cmd) (<-chan error, error) {
	started, done := make(chan error), make(chan error, 1)
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

func stopChild(child *os.Process, ended <-chan error, log *logrus.Entry) error {
	for _, signal := range []os.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := child.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stopping the VM runtime: %w", err)
		}
		select {
		case <-ended: // how it ended after our signal says nothing new
			return nil
		case <-time.After(stopGrace):
			log.Warnf("did not end within %s of %s", stopGrace, signal)
		}
	}
	return errors.New("the VM runtime survived SIGKILL")
}

// endLeftover ends the service that a killed a4s left behind. It holds the
// lock of the directory, so it must be gone before the next one starts.
func (o Options) endLeftover(ctx context.Context) error {
	p, err := process.Open(PIDFile(o.Root))
	if errors.Is(err, process.ErrGone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for a VM runtime left behind: %w", err)
	}
	o.Log.WithField("pid", p.PID()).Info("ending the VM runtime that a previous a4s left behind")
	return errors.Join(p.Stop(ctx, leftoverGrace), p.Close())
}

// args are the command line of the service.
func (o Options) args() []string {
	args := []string{"a4s", Command}
	add := func(flag, value string) {
		if value != "" {
			args = append(args, "--"+flag+"="+value)
		}
	}
	add("socket", o.Socket)
	add("root", o.Root)
	add("state", o.State)
	add("containerd", o.Containerd)
	add("snapshotter", o.Snapshotter)
	add("cni-conf-dir", o.CNIConfDir)
	for _, dir := range o.CNIBinDirs {
		add("cni-bin-dir", dir)
	}
	add("kernel", o.Kernel)
	add("initrd", o.Initrd)
	add("init", o.Init)
	add("accelerator", o.Accelerator)
	if o.Debug {
		args = append(args, "--debug")
	}
	return args
}

// childEnv is a4s' environment without what is not the child's business: the
// token, and systemd's conversation with a4s.
func childEnv(environ []string) []string {
	var env []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "A4S_") || name == "NOTIFY_SOCKET" || strings.HasPrefix(name, "WATCHDOG_") || strings.HasPrefix(name, "LISTEN_") {
			continue
		}
		env = append(env, entry)
	}
	return env
}

func lastLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}

// waitServing returns when the service answers at socket, or with an error
// when ctx ends.
func waitServing(ctx context.Context, socket string) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connecting to the VM runtime: %w", err)
	}
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for {
		if _, err := client.Version(ctx, &runtimeapi.VersionRequest{}); err == nil {
			return nil
		}
		select {
		case <-tick.C:
			conn.Connect()
			conn.ResetConnectBackoff()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
