package controllers

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/upstreamflags"
	"github.com/a4s-io/a4s/server/controlplane/featuregates"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/controlplane/noderanges"
)

// Name is the component's name.
const Name = "kube-controller-manager"

// readyPoll is how often the API and the effect of the controllers are looked
// for.
const readyPoll = 100 * time.Millisecond

// Options configures the controller manager.
type Options struct {
	// Kubeconfig authenticates as system:kube-controller-manager.
	Kubeconfig  string
	ClusterCIDR string
	ServiceCIDR string
	// VolumePluginDir is where FlexVolume drivers that attach are looked for;
	// it is made. Empty means upstream's, below /usr.
	VolumePluginDir string
	// ServiceAccountKey signs service-account tokens.
	ServiceAccountKey string
	// RootCA is handed to every pod to verify the API with.
	RootCA string
	// ClientCACert and ClientCAKey sign client certificate requests,
	// ServerCACert and ServerCAKey those of kubelets for serving. Upstream
	// wants one certificate in a file.
	ClientCACert, ClientCAKey string
	ServerCACert, ServerCAKey string
	// WithoutKubeletClients leaves the requests of kubelets for client certificates to
	// somebody else to sign.
	WithoutKubeletClients bool
	// Select changes which controllers run, in the syntax of --controllers; empty means all
	// that a cluster needs.
	Select string
	// Copies is the label of nodes that are kept elsewhere, which the controllers of nodes
	// must not see; empty means that there are none. See Apart.
	Copies string
	// PodGC blocks until pods may be taken for lost whose nodes are not there, and reports
	// false if its context ended; nil is at once.
	PodGC func(context.Context) bool
	// Args are user overrides from --kube-controller-manager-arg.
	Args []string
	// Await blocks until this server leads the others, after the controllers
	// are made and before they run; nil is for a server without others. What
	// it returns ends with the lead.
	Await func(context.Context) (context.Context, context.CancelFunc, error)
	// Wrap changes the transports of the controllers; nil leaves them as they are.
	Wrap transport.WrapperFunc
	// Pool is where the informers of the controllers share what they keep
	// with others. Without one everything is as upstream has it.
	Pool *interning.Pool
	Log  *logrus.Entry
}

// New returns the supervised controller manager. It is ready when all its
// controllers are built and running and the default service account exists.
func New(o Options) component.Component {
	return component.Component{Name: Name,
		Run: func(ctx context.Context, ready func()) error { return run(ctx, o, ready) }}
}

// argFlag is the flag of a4s that carries the user's arguments.
const argFlag = "--kube-controller-manager-arg"

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
	err = s.Validate(app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases())
	if err != nil {
		return &problem.Input{Source: argFlag, Err: err,
			Want: "arguments that kube-controller-manager accepts together"}
	}
	return nil
}

// Apart returns why the controllers of nodes cannot be kept from copies. Where they cannot,
// there must be none.
func Apart(o Options) error {
	s, err := parse(o)
	if err != nil {
		return err
	}
	if o.Pool == nil || s.SecureServing.BindPort != 0 || s.Generic.LeaderElection.LeaderElect {
		return errByUpstream
	}
	return nil
}

// NodeRanges are the ranges that nodes get theirs from, none if these controllers give nodes
// none.
func NodeRanges(o Options) ([]noderanges.Range, error) {
	s, err := parse(o)
	if err != nil {
		return nil, err
	}
	return nodeRanges(s)
}

// nodeRanges are what upstream makes of its flags.
func nodeRanges(s *options.KubeControllerManagerOptions) ([]noderanges.Range, error) {
	if !s.KubeCloudShared.AllocateNodeCIDRs {
		return nil, nil
	}
	ipam := s.NodeIPAMController
	var out []noderanges.Range
	for text := range strings.SplitSeq(s.KubeCloudShared.ClusterCIDR, ",") {
		cluster, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("reading the range of pods of the cluster: %w", err)
		}
		r := noderanges.Range{Cluster: cluster.Masked(),
			Bits: int(cmp.Or(ipam.NodeCIDRMaskSize, ipam.NodeCIDRMaskSizeIPv4, 24))}
		if cluster.Addr().Is6() {
			r.Bits = int(cmp.Or(ipam.NodeCIDRMaskSize, ipam.NodeCIDRMaskSizeIPv6, 64))
		}
		out = append(out, r)
	}
	return out, nil
}

func parse(o Options) (*options.KubeControllerManagerOptions, error) {
	s, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, fmt.Errorf("making the default options: %w", err)
	}
	fs := pflag.NewFlagSet(Name, pflag.ContinueOnError)
	fss := s.Flags(app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases())
	for _, f := range fss.FlagSets {
		fs.AddFlagSet(f)
	}
	s.ParsedFlags = &fss
	return s, upstreamflags.Parse(fs, argFlag, o.flags(), o.Args)
}

func (o Options) flags() map[string]string {
	m := map[string]string{
		"allocate-node-cidrs":    "true",
		"cluster-cidr":           o.ClusterCIDR,
		"configure-cloud-routes": "false",
		// Roles are aggregated by a4s' own pair of controllers, which keeps
		// tenants apart.
		"controllers": cmp.Or(o.Select,
			"*,bootstrap-signer-controller,token-cleaner-controller") + ",-clusterrole-aggregation-controller",
		// No limit: it is for programs on other machines, and API priority and
		// fairness protects the server from these controllers as from everybody.
		"kube-api-qps":                     "-1",
		"kubeconfig":                       o.Kubeconfig,
		"leader-elect":                     "false",
		"profiling":                        "false",
		"root-ca-file":                     o.RootCA,
		"secure-port":                      "0",
		"service-account-private-key-file": o.ServiceAccountKey,
		"service-cluster-ip-range":         o.ServiceCIDR,
		"use-service-account-credentials":  "true",
	}
	if o.VolumePluginDir != "" {
		m["flex-volume-plugin-dir"] = o.VolumePluginDir
	}
	for _, c := range allGated() {
		m[c.flag] = gatedWorkers
	}
	for _, signer := range []string{"kube-apiserver-client", "kubelet-client", "legacy-unknown"} {
		if signer == "kubelet-client" && o.WithoutKubeletClients {
			continue
		}
		m["cluster-signing-"+signer+"-cert-file"] = o.ClientCACert
		m["cluster-signing-"+signer+"-key-file"] = o.ClientCAKey
	}
	m["cluster-signing-kubelet-serving-cert-file"] = o.ServerCACert
	m["cluster-signing-kubelet-serving-key-file"] = o.ServerCAKey
	return m
}

func run(ctx context.Context, o Options, ready func()) error {
	s, err := parse(o)
	if err != nil {
		return err
	}
	if err := s.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("setting feature gates: %w", err)
	}
	// An earlier run in this process left its entry, and a second one of the
	// same name is refused.
	configz.Delete(app.ConfigzName)
	c, err := s.Config(ctx, app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases())
	if err != nil {
		return fmt.Errorf("building the configuration: %w", err)
	}
	built := newRunning()
	if o.Wrap != nil {
		c.Kubeconfig.Wrap(o.Wrap)
	}
	c.Kubeconfig.Wrap(built.Wrap)
	go func() {
		select {
		case <-built.Done():
		case <-ctx.Done():
			return
		}
		if poll(ctx, func() error {
			_, err := c.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default",
				metav1.GetOptions{})
			return err
		}) == nil {
			ready()
		}
	}()
	complete := c.Complete()
	if o.Pool == nil || byUpstream(complete) {
		// Upstream gives the API ten seconds and then fails in a way that leaves
		// its informer name taken, so that no later run in this process succeeds.
		if err := poll(ctx, func() error {
			return c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		}); err != nil {
			return nil // ctx ended
		}
		if o.Await != nil {
			led, cancel, err := o.Await(ctx)
			if err != nil {
				return nil // ctx ended
			}
			defer cancel()
			ctx = led
		}
		if o.Pool == nil {
			return app.Run(ctx, complete)
		}
		m := &manager{config: complete, name: Name + "-owners", transform: o.Pool.Transform}
		return m.beside(ctx, app.Run, built.Done())
	}
	ranges, err := nodeRanges(s)
	if err != nil {
		return err
	}
	m := &manager{config: complete, name: Name, transform: o.Pool.Transform, built: built.tell, await: o.Await,
		copies: o.Copies, podGC: o.PodGC, ranges: ranges, log: o.Log}
	if m.log == nil {
		m.log = logrus.WithField("component", Name)
	}
	return m.run(ctx)
}

// poll calls check until it succeeds or ctx ends.
func poll(ctx context.Context, check func() error) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		if check() == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
