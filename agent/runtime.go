package agent

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/cluster/registration"
	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/agent/host/hostprep"
	"github.com/a4s-io/a4s/agent/kubelet"
	"github.com/a4s-io/a4s/agent/kubelet/settings"
	"github.com/a4s-io/a4s/agent/network"
	"github.com/a4s-io/a4s/agent/runtime/containerd"
	"github.com/a4s-io/a4s/agent/runtime/images"
	"github.com/a4s-io/a4s/agent/runtime/mux"
	"github.com/a4s-io/a4s/agent/runtime/readiness"
	"github.com/a4s-io/a4s/agent/runtime/registries"
	vmsettings "github.com/a4s-io/a4s/agent/vm/settings"
	"github.com/a4s-io/a4s/agent/vm/supervisor"
	"github.com/a4s-io/a4s/embedded/payload"
	"github.com/a4s-io/a4s/embedded/payload/format"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/workload"
)

// CRISocket is what the kubelet uses for the container runtimes, and crictl.
func CRISocket() string { return filepath.Join(instance.RunDir, "cri.sock") }

// runtimeSet is the container runtimes of the node, and what the kubelet sees of
// them.
type runtimeSet struct {
	cfg        *config.Agent
	dir        string // <data-dir>/agent
	host       host.Info
	registries *registries.Followed
	chosen     kubelet.Chosen        // what the kubelet's configuration says
	registered []noderuntime.Runtime // of the settings; endpoints may be builtin
	payload    *payload.Payload      // nil until start
	mux        *mux.Mux              // nil until start
	grace      time.Duration         // of the primary runtime
	reported   readiness.Told        // what the cluster knows of the runtimes
	imported   bool                  // the images are there
	log        *logrus.Entry
}

// start unpacks the payload, prepares the kernel and starts the runtimes that a4s
// brings without waiting for them, and what the kubelet sees of all runtimes.
func (r *runtimeSet) start(ctx context.Context, group *component.Group) error {
	var err error
	if r.payload, err = payload.Extract(ctx, r.cfg.DataDir); err != nil {
		return err
	}
	if err := hostprep.Prepare(ctx,
		hostprep.Options{RecordFile: filepath.Join(r.dir, hostprep.RecordName), Log: r.log,
			LeaveLimits: r.cfg.LeaveKernelLimits || r.chosen.ProtectKernelDefaults}); err != nil {
		return err
	}
	if r.builtin(workload.Container) {
		group.Start(ctx, r.registries.Component())
		group.Start(ctx, containerd.New(r.containerd()))
	}
	if r.builtin(workload.VM) {
		group.Start(ctx, supervisor.New(r.vm()))
	}
	options := r.muxOptions()
	if r.mux, err = mux.New(options); err != nil {
		return err
	}
	r.grace = options.Grace
	return group.StartAndWait(ctx, r.mux.Component())
}

// importImages makes the pause image and the operator's archives available, and follows what comes later.
func (r *runtimeSet) importImages(ctx context.Context, group *component.Group) error {
	if r.imported || !r.builtin(workload.Container) {
		return nil
	}
	if err := group.Wait(ctx, containerd.Name); err != nil {
		return err
	}
	follower, err := images.Import(ctx, images.Options{
		Socket:      containerd.Socket(containerdState()),
		Snapshotter: r.cfg.Snapshotter,
		Required:    []string{r.payload.PauseImageTar},
		Dir:         images.Dir(r.cfg.DataDir),
		StateFile:   images.StateFile(r.cfg.DataDir),
		Imported:    r.preloaded,
		Log:         r.log,
	})
	if err != nil {
		return err
	}
	r.imported = true
	group.Start(ctx, follower)
	return nil
}

// preloaded has all pods be allowed images that came from files.
func (r *runtimeSet) preloaded(ids map[string]string) error {
	known, err := kubelet.RecordPreloaded(r.cfg.DataDir, ids)
	if r.imported && len(known) > 0 {
		r.log.WithField("images", strings.Join(known, ", ")).Warn("the kubelet knows the content of these images " +
			"already: until a4s starts again, pods may have to pull them")
	}
	return err
}

// report tells the cluster which runtimes of the node are ready, and that there is the node if
// its partition has lost that.
func (r *runtimeSet) report(
	ctx context.Context, group *component.Group, a *access, restored func() (string, <-chan struct{}),
) error {
	_, client, err := a.clients(readiness.Name)
	if err != nil {
		return err
	}
	keeper := registration.New(registration.Options{NodeName: r.cfg.NodeName, Client: client, Restored: restored,
		Log: logrus.WithField("component", registration.Name)})
	group.Start(ctx, keeper.Component())
	group.Start(ctx, readiness.New(readiness.Options{
		Client:   client,
		NodeName: r.cfg.NodeName,
		Runtimes: r.mux,
		Told:     &r.reported,
		Seen:     keeper.Saw,
		Log:      logrus.WithField("component", readiness.Name),
	}))
	return nil
}

// notReadyReason says why a pod that was placed on this node cannot start here.
func (r *runtimeSet) notReadyReason(t workload.Type, hostNetwork bool) string {
	return readiness.Gate{Runtimes: r.mux, Told: &r.reported, Grace: r.grace}.NotReadyReason(t, hostNetwork)
}

// check completes the runtimes of the settings and refuses what this machine or
// this a4s cannot run.
func (r *runtimeSet) check() error {
	var err error
	if r.registered, err = noderuntime.OfNode(r.cfg.Runtimes, r.cfg.ContainerRuntimeEndpoint); err != nil {
		return &problem.Input{Source: "--runtime", Err: err, Want: noderuntime.Form}
	}
	if r.builtin(workload.VM) {
		if err := vmsettings.Preflight(r.vm().Service); err != nil {
			return err
		}
	}
	if r.cfg.DefaultRuntime != "" && !r.builtin(workload.Container) {
		return &problem.Input{Source: "--default-runtime", Value: r.cfg.DefaultRuntime,
			Want: "nothing: pods of this node run in a runtime of yours, which has a default of its own"}
	}
	return r.containerd().Validate()
}

// builtin reports whether the runtime of the type that a4s brings is used.
func (r *runtimeSet) builtin(t workload.Type) bool {
	return slices.ContainsFunc(r.registered, func(o noderuntime.Runtime) bool {
		return o.Type == t && o.Endpoint == noderuntime.Builtin
	})
}

// containerAPI is the socket of the runtime of containers, "" if there is none.
func (r *runtimeSet) containerAPI() string {
	for _, o := range r.registered {
		if o.Type == workload.Container {
			if o.Endpoint == noderuntime.Builtin {
				return containerd.Socket(containerdState())
			}
			return strings.TrimPrefix(o.Endpoint, "unix://")
		}
	}
	return ""
}

// muxOptions are those of what stands between the kubelet and the runtimes.
func (r *runtimeSet) muxOptions() mux.Options {
	all := slices.Clone(r.registered)
	for i := range all {
		if o := &all[i]; o.Endpoint == noderuntime.Builtin && o.Type == workload.Container {
			o.Endpoint = "unix://" + containerd.Socket(containerdState())
		} else if o.Endpoint == noderuntime.Builtin {
			o.Endpoint = "unix://" + vmsettings.Socket(instance.RunDir)
		}
	}
	return mux.Options{
		Socket:      CRISocket(),
		AdminSocket: filepath.Join(instance.RunDir, noderuntime.Socket),
		File:        filepath.Join(r.dir, "runtimes.json"),
		MemoryDir:   filepath.Join(instance.RunDir, "runtimes"),
		Runtimes:    all,
		Grace:       time.Duration(r.cfg.RuntimeGracePeriods) * r.chosen.StatusPeriod,
		KubeletDir:  settings.RootDir(r.cfg.DataDir),
		Carried:     format.PauseImage,
		Log:         logrus.WithField("component", mux.Name),
	}
}

// containerd returns its options. Before the payload is unpacked, its paths are
// only of the right form.
func (r *runtimeSet) containerd() containerd.Options {
	unpacked := r.payload
	if unpacked == nil {
		dir := filepath.Join(r.cfg.DataDir, "data")
		unpacked = &payload.Payload{ShimPath: dir, RuncPath: dir, CNIBinDir: dir}
	}
	pause := r.cfg.PauseImage
	if pause == "" {
		pause = unpacked.PauseImage
	}
	return containerd.Options{
		DataDir:     r.cfg.DataDir,
		ShimPath:    unpacked.ShimPath,
		RuncPath:    unpacked.RuncPath,
		CNIBinDir:   unpacked.CNIBinDir,
		StateDir:    containerdState(),
		CNIConfDir:  network.CNIConfDir(r.cfg.DataDir),
		PauseImage:  pause,
		Snapshotter: r.cfg.Snapshotter,

		DefaultRuntime: r.cfg.DefaultRuntime,
		Runtimes:       containerd.Found(containerd.Directories(os.Getenv("PATH"))),

		Registries: r.registries,
		Host:       r.host,
		Debug:      r.cfg.Debug,
		Log:        logrus.WithField("component", containerd.Name),
	}
}

// containerdState is containerd's volatile state.
func containerdState() string { return filepath.Join(instance.RunDir, "containerd") }
