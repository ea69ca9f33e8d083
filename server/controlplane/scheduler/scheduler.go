package scheduler

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/configz"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/upstreamflags"
	"github.com/a4s-io/a4s/server/controlplane/featuregates"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// Name is the component's name.
const Name = "kube-scheduler"

// configzName is what upstream registers its configuration as.
const configzName = "componentconfig"

// Options configures the scheduler.
type Options struct {
	// Kubeconfig authenticates as system:kube-scheduler.
	Kubeconfig string
	// Args are user overrides from --kube-scheduler-arg.
	Args []string
	// Await blocks until this server leads the others; nil is for a server
	// without others. What it returns ends with the lead.
	Await func(context.Context) (context.Context, context.CancelFunc, error)
	// Wrap changes the transports of the scheduler; nil leaves them as they are.
	Wrap transport.WrapperFunc
	// Plugins are made for each run, and enabled in every profile after that of
	// readiness; nil for none.
	Plugins func() []Plugin
	// Pool is where the informers share what they keep with others.
	Pool *interning.Pool
	Log  *logrus.Entry
}

// Plugin is one that the caller adds.
type Plugin struct {
	Name string
	New  runtime.PluginFactory
	// Attach gets the scheduler and the informers of its run before they start; nil
	// needs neither. The context ends with the run.
	Attach func(context.Context, *scheduler.Scheduler, informers.SharedInformerFactory) error
}

// New returns the supervised scheduler. It is ready when its caches have
// synced.
func New(o Options) component.Component {
	return component.Component{Name: Name,
		Run: func(ctx context.Context, ready func()) error { return run(ctx, o, ready) }}
}

// argFlag is the flag of a4s that carries the user's arguments.
const argFlag = "--kube-scheduler-arg"

// Validate finds mistakes in the user's arguments without starting anything.
func Validate(o Options) error {
	if err := featuregates.Check(argFlag, o.Args); err != nil {
		return err
	}
	s, err := parse(o)
	if err == nil {
		err = s.ComponentGlobalsRegistry.Set() // which Validate would do with a warning
	}
	if err != nil {
		return err
	}
	if s.ComponentConfig, err = latest.Default(); err != nil {
		return fmt.Errorf("making the default configuration: %w", err)
	}
	if s.ConfigFile != "" {
		if s.ComponentConfig, err = options.LoadConfigFromFile(klog.Background(), s.ConfigFile); err != nil {
			return &problem.Input{Source: argFlag, Value: "config=" + s.ConfigFile, Err: err,
				Want: "a file with a KubeSchedulerConfiguration"}
		}
	}
	if err := utilerrors.NewAggregate(s.Validate()); err != nil {
		return &problem.Input{Source: argFlag, Err: err, Want: "arguments that kube-scheduler accepts together"}
	}
	return nil
}

func parse(o Options) (*options.Options, error) {
	s := options.NewOptions()
	fs := pflag.NewFlagSet(Name, pflag.ContinueOnError)
	for _, f := range s.Flags.FlagSets {
		fs.AddFlagSet(f)
	}
	return s, upstreamflags.Parse(fs, argFlag, map[string]string{
		// No limit: it is for programs on other machines, and API priority and
		// fairness protects the server from this one as from everybody.
		"kube-api-qps": "-1",
		"kubeconfig":   o.Kubeconfig,
		"leader-elect": "false",
		"profiling":    "false",
		"secure-port":  "0",
	}, o.Args)
}

func run(ctx context.Context, o Options, ready func()) error {
	if o.Await != nil {
		ready()
		led, cancel, err := o.Await(ctx)
		if err != nil {
			return nil // ctx ended
		}
		defer cancel()
		ctx = led
	}
	s, err := parse(o)
	if err != nil {
		return err
	}
	if err := s.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("setting feature gates: %w", err)
	}
	// An earlier run in this process left its entry, and a second one of the
	// same name is refused.
	configz.Delete(configzName)
	var plugins []Plugin
	if o.Plugins != nil {
		plugins = o.Plugins()
	}
	cc, sched, err := setup(ctx, s, o.Wrap, plugins)
	if err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	if err := awaitAccess(ctx, cc.Client); err != nil {
		return err
	}
	if err := shareObjects(cc.InformerFactory, o.Pool); err != nil {
		return fmt.Errorf("setting up the informers: %w", err)
	}
	for _, p := range plugins {
		if p.Attach == nil {
			continue
		}
		if err := p.Attach(ctx, sched, cc.InformerFactory); err != nil {
			return fmt.Errorf("attaching the plugin %s: %w", p.Name, err)
		}
	}
	go func() {
		// Blocks until the informers are started by Run and have synced.
		for _, ok := range cc.InformerFactory.WaitForCacheSync(ctx.Done()) {
			if !ok {
				return
			}
		}
		if sched.WaitForHandlersSync(ctx) == nil {
			ready()
		}
	}()
	if err := app.Run(ctx, cc, sched); ctx.Err() == nil {
		return err
	}
	return nil // upstream reports every end as an error
}

// shareObjects has the informers of what there is much of keep the objects that those of the controllers keep: all
// tenants have namespaces and Services, and a server can have thousands of nodes. Upstream's own informer of pods
// drops what it does not need.
func shareObjects(f informers.SharedInformerFactory, pool *interning.Pool) error {
	core := f.Core().V1()
	for _, informer := range []cache.SharedIndexInformer{
		core.Namespaces().Informer(), core.Services().Informer(), core.Nodes().Informer(),
	} {
		if err := informer.SetTransform(pool.Transform); err != nil {
			return err
		}
	}
	return nil
}
