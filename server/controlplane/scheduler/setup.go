package scheduler

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	appconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/a4s-io/a4s/server/controlplane/scheduler/readiness"
	"github.com/a4s-io/a4s/server/controlplane/scheduler/topology"
	"github.com/a4s-io/a4s/server/controlplane/scheduler/turns"
)

// setup makes the scheduler of s. It stands in for upstream's app.Setup, which
// has plugins registered but only enabled by a configuration file: here those
// of a4s are enabled in whatever profiles there are.
func setup(
	ctx context.Context, s *options.Options, wrap transport.WrapperFunc, plugins []Plugin,
) (*appconfig.CompletedConfig, *scheduler.Scheduler, error) {
	registry := runtime.Registry{readiness.Name: readiness.New, turns.Name: turns.Factory()}
	if err := registry.Merge(topology.Plugins()); err != nil {
		return nil, nil, err
	}
	for _, p := range plugins {
		if err := registry.Register(p.Name, p.New); err != nil {
			return nil, nil, err
		}
	}
	var err error
	if s.ComponentConfig, err = latest.Default(); err != nil {
		return nil, nil, fmt.Errorf("making the default configuration: %w", err)
	}
	s.ComponentConfig.Parallelism = parallelism(goruntime.GOMAXPROCS(0))
	if err := errors.Join(s.Validate()...); err != nil {
		return nil, nil, err
	}
	c, err := s.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := wrapClients(c, s, wrap); err != nil {
		return nil, nil, err
	}
	cc := c.Complete()
	cfg := &cc.ComponentConfig
	for i := range cfg.Profiles {
		for _, p := range slices.Backward(plugins) {
			enable(&cfg.Profiles[i], p.Name)
		}
		enable(&cfg.Profiles[i], readiness.Name)
		topology.Replace(&cfg.Profiles[i])
	}
	takeTurns(cfg.Profiles)
	var completed []config.KubeSchedulerProfile
	sched, err := scheduler.New(ctx, cc.Client, cc.InformerFactory, cc.DynInformerFactory,
		func(name string) events.EventRecorderLogger { return cc.EventBroadcaster.NewRecorder(name) },
		scheduler.WithComponentConfigVersion(cfg.APIVersion),
		scheduler.WithKubeConfig(cc.KubeConfig),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(registry),
		scheduler.WithPodInitialBackoffSeconds(cfg.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(cfg.PodMaxBackoffSeconds),
		scheduler.WithPodMaxInUnschedulablePodsDuration(cc.PodMaxInUnschedulablePodsDuration),
		scheduler.WithExtenders(cfg.Extenders...),
		scheduler.WithParallelism(cfg.Parallelism),
		scheduler.WithBuildFrameworkCapturer(func(p config.KubeSchedulerProfile) { completed = append(completed, p) }),
	)
	if err != nil {
		return nil, nil, err
	}
	return &cc, sched, options.LogOrWriteConfig(klog.FromContext(ctx), s.WriteConfigTo, cfg, completed)
}

// wrapClients makes the clients and informers of the scheduler again, with changed
// transports. Upstream makes them of a file.
func wrapClients(c *appconfig.Config, s *options.Options, wrap transport.WrapperFunc) error {
	if wrap == nil {
		return nil
	}
	c.KubeConfig.Wrap(wrap)
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(c.KubeConfig), "scheduler"))
	if err != nil {
		return fmt.Errorf("making the client: %w", err)
	}
	any, err := dynamic.NewForConfig(c.KubeConfig)
	if err != nil {
		return fmt.Errorf("making the client of any resource: %w", err)
	}
	c.Client = client
	c.InformerFactory = scheduler.NewInformerFactory(client, 0, s.InformerName)
	c.DynInformerFactory = dynamicinformer.NewFilteredDynamicSharedInformerFactory(any, 0, metav1.NamespaceAll, nil)
	return nil
}

// parallelism is how many goroutines look for a node for one pod: one for two
// processors, and upstream's 16 from 32 on. Each is one more that waits for its turn
// among those of the API server, and the pod waits for the last of them. A file of
// the user's (--kube-scheduler-arg=config=FILE) stands in for it.
func parallelism(processors int) int32 { return int32(max(1, min(processors/2, 16))) }

// awaitAccess waits for the right to read what only a plugin of a4s reads. It
// is among the objects that the server makes at its first start, and informers
// that fail say so loudly and wait before they try again.
func awaitAccess(ctx context.Context, client kubernetes.Interface) error {
	const pause, limit = 50 * time.Millisecond, 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (bool, error) {
		_, err := client.NodeV1().RuntimeClasses().List(ctx, metav1.ListOptions{Limit: 1})
		return !apierrors.IsForbidden(err), nil // the informers deal with the rest
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // so do they with this
	}
	return err
}

// takeTurns has tenants take turns in the queue, unless a profile says how to order it. All
// have the same order, as they share the queue.
func takeTurns(profiles []config.KubeSchedulerProfile) {
	for _, profile := range profiles {
		if sort := profile.Plugins.QueueSort; len(sort.Enabled)+len(sort.Disabled) > 0 {
			return
		}
	}
	for i := range profiles {
		enable(&profiles[i], turns.Name)
		// Upstream's order is enabled at all extension points, and there may be one only.
		profiles[i].Plugins.QueueSort = config.PluginSet{
			Enabled: []config.Plugin{{Name: turns.Name}}, Disabled: []config.Plugin{{Name: "*"}},
		}
	}
}

// enable turns a plugin on at all its extension points, unless the profile
// names it. It comes first: what it says about a node is of more use than that
// the node has a taint because of it.
func enable(profile *config.KubeSchedulerProfile, name string) {
	if profile.Plugins == nil {
		profile.Plugins = &config.Plugins{}
	}
	all := &profile.Plugins.MultiPoint
	named := func(p config.Plugin) bool { return p.Name == name }
	if slices.ContainsFunc(all.Enabled, named) || slices.ContainsFunc(all.Disabled, named) {
		return
	}
	all.Enabled = slices.Insert(all.Enabled, 0, config.Plugin{Name: name})
}
