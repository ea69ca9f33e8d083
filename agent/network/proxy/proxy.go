package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/cmd/kube-proxy/app"
	kubeproxyconfig "k8s.io/kubernetes/pkg/proxy/apis/config"
	proxymetrics "k8s.io/kubernetes/pkg/proxy/metrics"

	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/preflight"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/upstreamflags"
)

// Where kube-proxy serves on every node, for the node itself only.
const (
	healthzAddress = "127.0.0.1:10256"
	metricsAddress = "127.0.0.1:10249"
)

// argFlag is the a4s flag that carries arguments of the user.
const argFlag = "--kube-proxy-arg"

// Options configure kube-proxy.
type Options struct {
	// KubeconfigPath is the node's credential.
	KubeconfigPath string
	// NodeName is the name of the Node object.
	NodeName string
	// ClusterCIDR is the range of the pods on nodes of this node's partition, so of those that
	// send something by way of this node.
	ClusterCIDR string
	// Mode is "auto", "nftables" or "iptables" (--proxy-mode).
	Mode netfilter.Mode
	// Args are the user's arguments, each "name=value".
	Args []string
	// Log receives what was decided.
	Log *logrus.Entry
}

// Name is the component's name.
const Name = "kube-proxy"

// New returns kube-proxy as a component. It is ready after the first sync of
// all services into the kernel.
func New(o Options) component.Component {
	if o.Log == nil {
		o.Log = logrus.WithField("component", "kube-proxy")
	}
	return component.Component{Name: Name, Run: o.run}
}

// Ports are those that kube-proxy will listen on. It checks the user's
// arguments on the way, without touching the machine.
func (o Options) Ports() ([]preflight.Port, error) {
	// The gates of the process are set when kube-proxy runs, not here.
	checked := o
	checked.Args = slices.DeleteFunc(slices.Clone(o.Args), func(arg string) bool {
		return upstreamflags.Name(arg) == "feature-gates"
	})
	for _, arg := range o.Args {
		if upstreamflags.Name(arg) == "feature-gates" {
			_, gates, _ := strings.Cut(arg, "=")
			if err := utilfeature.DefaultMutableFeatureGate.DeepCopy().Set(gates); err != nil {
				return nil, &problem.Input{Source: argFlag, Value: arg, Err: err, Want: "feature gates of kube-proxy"}
			}
		}
	}
	opts, fs, err := checked.options(netfilter.Nftables)
	if err != nil {
		return nil, err
	}
	all, err := ports(fs)
	if err != nil {
		return nil, err
	}
	if err = opts.Complete(fs); err == nil {
		err = opts.Validate()
	}
	if err != nil {
		return nil, &problem.Input{Source: argFlag, Err: err, Want: "arguments that kube-proxy accepts together"}
	}
	return all, nil
}

// ports are those of addresses that the user has not turned off.
func ports(fs *pflag.FlagSet) ([]preflight.Port, error) {
	var all []preflight.Port
	for flag, what := range map[string]string{"healthz-bind-address": "kube-proxy health",
		"metrics-bind-address": "kube-proxy metrics"} {
		address := fs.Lookup(flag).Value.String()
		if address == "" {
			continue
		}
		host, text, err := net.SplitHostPort(address)
		if err != nil {
			return nil, &problem.Input{Source: argFlag, Value: flag + "=" + address, Err: err,
				Want: flag + "=ADDRESS:PORT"}
		}
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, &problem.Input{Source: argFlag, Value: flag + "=" + address, Err: err,
				Want: flag + "=ADDRESS:PORT"}
		}
		if port != 0 {
			all = append(all, preflight.Port{Address: host, Port: int(port), What: what,
				Flag: argFlag + " " + flag + "=ADDRESS:PORT"})
		}
	}
	return all, nil
}

func (o Options) run(ctx context.Context, ready func()) error {
	mode, why, err := netfilter.Choose(ctx, "--proxy-mode", o.Mode)
	if err != nil {
		return err
	}
	o.Log.WithField("why", why).Infof("services use %s", mode)
	opts, fs, err := o.options(mode)
	if err != nil {
		return err
	}
	// kube-proxy would log an occupied port every few seconds and go on.
	listen, err := ports(fs)
	if err != nil {
		return err
	}
	if err := preflight.Ports(listen...); err != nil {
		return err
	}
	if err := opts.Complete(fs); err != nil {
		return fmt.Errorf("kube-proxy options: %w", err)
	}
	if err := opts.Validate(); err != nil {
		return &problem.Input{Source: argFlag, Err: err}
	}
	// A start that failed leaves its registration behind, which would fail
	// every later one.
	configz.Delete(kubeproxyconfig.GroupName)

	result := make(chan error, 1)
	go func() { result <- opts.Run(ctx) }()
	synced := make(chan struct{})
	go func() {
		if waitSynced(ctx, fs.Lookup("healthz-bind-address").Value.String()) {
			close(synced)
		}
	}()
	for {
		select {
		case <-synced:
			ready()
			synced = nil
		case err := <-result:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// refused are flags of kube-proxy that make no sense inside a4s.
var refused = map[string]string{
	"config":          "single arguments, because kube-proxy ignores them beside a configuration file",
	"write-config-to": "arguments that do not end kube-proxy",
	"cleanup":         "`a4s killall`, which removes the rules",
	"init-only":       "arguments that do not end kube-proxy",
	"v":               "-v of a4s, which sets the verbosity of all upstream components",
	"vmodule":         "--vmodule of a4s, which sets the verbosity of all upstream components",
	"logging-format":  "arguments other than logging, which a4s does itself",
}

// defaults are the arguments that a4s gives.
func (o Options) defaults(mode netfilter.Mode) map[string]string {
	d := map[string]string{
		"proxy-mode":        string(mode),
		"kubeconfig":        o.KubeconfigPath,
		"hostname-override": o.NodeName,
		"cluster-cidr":      o.ClusterCIDR,
		"detect-local-mode": string(kubeproxyconfig.LocalModeClusterCIDR),
		// Zero leaves the machine's conntrack alone.
		"conntrack-max-per-core":            "0",
		"conntrack-min":                     "0",
		"conntrack-tcp-timeout-established": "0s",
		"conntrack-tcp-timeout-close-wait":  "0s",
		"healthz-bind-address":              healthzAddress,
		"metrics-bind-address":              metricsAddress,
	}
	// kube-proxy would set the score of the whole process, which is not its
	// own here.
	if score, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		d["oom-score-adj"] = strings.TrimSpace(string(score))
	}
	return d
}

func (o Options) options(mode netfilter.Mode) (*app.Options, *pflag.FlagSet, error) {
	for _, arg := range o.Args {
		name := upstreamflags.Name(arg)
		_, value, _ := strings.Cut(arg, "=")
		if want, bad := refused[name]; bad {
			return nil, nil, &problem.Input{Source: argFlag, Value: arg, Want: want}
		}
		if name == "detect-local-mode" && value == string(kubeproxyconfig.LocalModeNodeCIDR) {
			// In this mode kube-proxy exits the process when the range changes.
			return nil, nil, &problem.Input{Source: argFlag, Value: arg,
				Want: "ClusterCIDR, BridgeInterface or InterfaceNamePrefix"}
		}
	}
	opts := app.NewOptions()
	fs := pflag.NewFlagSet("kube-proxy", pflag.ContinueOnError)
	opts.AddFlags(fs)
	if err := upstreamflags.Parse(fs, argFlag, o.defaults(mode), o.Args); err != nil {
		return nil, nil, err
	}
	return opts, fs, nil
}

// waitSynced polls until the services are in the kernel and kube-proxy's
// health server, if it has one, says that all is well. It returns false when
// ctx ended first.
func waitSynced(ctx context.Context, address string) bool {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if synced() && healthy(ctx, client, address) {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// synced reports whether the rules were written once. The health server cannot
// tell: it counts a proxier that has not begun as healthy.
func synced() bool {
	gauge, ok := proxymetrics.SyncProxyRulesLastTimestamp.WithLabelValues(string(corev1.IPv4Protocol)).(interface {
		Write(*dto.Metric) error
	})
	if !ok {
		return false // not registered yet
	}
	var m dto.Metric
	return gauge.Write(&m) == nil && m.GetGauge().GetValue() > 0
}

func healthy(ctx context.Context, client *http.Client, address string) bool {
	if address == "" {
		return true
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false // kube-proxy refuses it too, and says why
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // only the status matters
	return resp.StatusCode == http.StatusOK
}
