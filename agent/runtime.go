package agent

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/host/hostprep"
	"github.com/a4s-io/a4s/agent/kubelet/settings"
	"github.com/a4s-io/a4s/agent/network"
	"github.com/a4s-io/a4s/agent/runtime/containerd"
	"github.com/a4s-io/a4s/agent/runtime/mux"
	"github.com/a4s-io/a4s/agent/vm"
	"github.com/a4s-io/a4s/embedded/payload"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/workload"
)

// criSocket is what the kubelet uses for the container runtime.
func criSocket() string { return filepath.Join(instance.RunDir, "cri.sock") }

// StartRuntime unpacks the payload, prepares the kernel and starts the carried
// runtimes in group without waiting for them, and what the kubelet sees of all
// runtimes of the node.
func (n *Node) StartRuntime(ctx context.Context, group *component.Group) error {
	var err error
	if n.payload, err = payload.Extract(ctx, n.cfg.DataDir); err != nil {
		return err
	}
	if err := hostprep.Prepare(ctx, hostprep.Options{RecordFile: filepath.Join(n.dir, hostprep.RecordName), Log: n.log}); err != nil {
		return err
	}
	if n.carries(workload.Container) {
		group.Start(ctx, containerd.New(n.containerd()))
	}
	if n.carries(workload.VM) {
		group.Start(ctx, vm.New(n.vm()))
	}
	options, err := n.mux()
	if err != nil {
		return err
	}
	if n.runtimes, err = mux.New(options); err != nil {
		return err
	}
	n.grace = options.Grace
	n.health.mux.Store(n.runtimes)
	return group.StartAndWait(ctx, n.runtimes.Component())
}

// checkRuntimes completes the runtimes of the settings and refuses what this
// machine or this a4s cannot run.
func (n *Node) checkRuntimes() error {
	var err error
	if n.registered, err = noderuntime.OfNode(n.cfg.Runtimes, n.cfg.ContainerRuntimeEndpoint); err != nil {
		return &problem.Input{Source: "--runtime", Err: err, Want: noderuntime.Form}
	}
	if n.carries(workload.VM) {
		if err := vm.Preflight(n.vm().Service); err != nil {
			return err
		}
	}
	return n.containerd().Validate()
}

// carries tells whether a runtime of the type that is carried in a4s is used.
func (n *Node) carries(t workload.Type) bool {
	return slices.ContainsFunc(n.registered, func(r noderuntime.Runtime) bool { return r.Type == t && r.Endpoint == noderuntime.Builtin })
}

// mux is what stands between the kubelet and the runtimes.
func (n *Node) mux() (mux.Options, error) {
	period, err := n.kubelet(unknownCluster(), "", "").StatusPeriod()
	if err != nil {
		return mux.Options{}, err
	}
	all := slices.Clone(n.registered)
	for i := range all {
		if r := &all[i]; r.Endpoint == noderuntime.Builtin && r.Type == workload.Container {
			r.Endpoint = "unix://" + containerd.Socket(n.stateDir())
		} else if r.Endpoint == noderuntime.Builtin {
			r.Endpoint = "unix://" + vm.Socket(instance.RunDir)
		}
	}
	return mux.Options{
		Socket:      criSocket(),
		AdminSocket: filepath.Join(instance.RunDir, noderuntime.Socket),
		File:        filepath.Join(n.dir, "runtimes.json"),
		MemoryDir:   filepath.Join(instance.RunDir, "runtimes"),
		Runtimes:    all,
		Grace:       time.Duration(n.cfg.RuntimeGracePeriods) * period,
		KubeletDir:  settings.RootDir(n.cfg.DataDir),
		Log:         logrus.WithField("component", mux.Name),
	}, nil
}

// containerd returns its options. Before the payload is unpacked, its paths are
// only of the right form.
func (n *Node) containerd() containerd.Options {
	carried := n.payload
	if carried == nil {
		dir := filepath.Join(n.cfg.DataDir, "data")
		carried = &payload.Payload{ShimPath: dir, RuncPath: dir, CNIBinDir: dir}
	}
	pause := n.cfg.PauseImage
	if pause == "" {
		pause = carried.PauseImage
	}
	return containerd.Options{
		DataDir:     n.cfg.DataDir,
		ShimPath:    carried.ShimPath,
		RuncPath:    carried.RuncPath,
		CNIBinDir:   carried.CNIBinDir,
		StateDir:    n.stateDir(),
		CNIConfDir:  network.CNIConfDir(n.cfg.DataDir),
		PauseImage:  pause,
		Snapshotter: n.cfg.Snapshotter,
		Registries:  n.registries,
		Host:        n.host,
		Debug:       n.cfg.Debug,
		Log:         logrus.WithField("component", containerd.Name),
	}
}

// stateDir is containerd's volatile state.
func (n *Node) stateDir() string { return filepath.Join(instance.RunDir, "containerd") }
