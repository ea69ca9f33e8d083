package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/host/child"
	"github.com/a4s-io/a4s/agent/vm/process"
	"github.com/a4s-io/a4s/agent/vm/settings"
	"github.com/a4s-io/a4s/internal/component"
)

const (
	// stopGrace is how long the child has to finish what it is doing.
	stopGrace = 15 * time.Second
	// leftoverGrace is the same for one that a killed a4s left behind.
	leftoverGrace = 10 * time.Second
	readyInterval = 50 * time.Millisecond
	pidFileName   = "vm-runtime.pid"
	logFileName   = "vm-runtime.log"
)

// Options say how to supervise the runtime service.
type Options struct {
	settings.Service
	// Executable is a4s; empty means this process' own binary, even when it
	// was replaced on disk.
	Executable string
	// Debug raises the log level of the service.
	Debug bool
}

// New returns the component that runs the runtime service as a child process.
// It is ready when that answers. Virtual machines survive its end.
func New(o Options) component.Component {
	o.Service = o.Service.WithDefaults()
	if o.Executable == "" {
		o.Executable = "/proc/self/exe"
	}
	return component.Component{Name: settings.Name, StopTimeout: o.process().StopTimeout(), Run: o.run}
}

// LogFile is where the service's log goes.
func LogFile(root string) string { return filepath.Join(root, logFileName) }

// PIDFile names the process of the service, for a caller that must end it when
// its supervisor is gone.
func PIDFile(root string) string { return filepath.Join(root, pidFileName) }

func (o Options) run(ctx context.Context, ready func()) error {
	if err := os.MkdirAll(o.Root, 0o711); err != nil {
		return fmt.Errorf("directory of the VM runtime: %w", err)
	}
	if err := o.endLeftover(ctx); err != nil {
		return err
	}
	return o.process().Run(ctx, ready)
}

func (o Options) process() child.Process {
	return child.Process{
		Name:      "the VM runtime",
		Path:      o.Executable,
		Args:      o.args(),
		Env:       child.Env(os.Environ()),
		LogFile:   LogFile(o.Root),
		StopGrace: stopGrace,
		Started:   func(pid int) error { return process.Record(PIDFile(o.Root), pid) },
		Serving:   func(ctx context.Context) error { return waitServing(ctx, o.Socket) },
		Log:       o.Log,
	}
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
	args := []string{"a4s", settings.Command}
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
