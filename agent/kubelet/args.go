package kubelet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/agent/kubelet/settings"
	"github.com/a4s-io/a4s/internal/problem"
)

// refused are the kubelet's flags that have no effect here or would take the
// node apart, and what to use instead.
var refused = map[string]string{
	"config-dir":                "config=FILE",
	"kubeconfig":                "no value: a4s makes the node's credential",
	"bootstrap-kubeconfig":      "no value: a4s makes the node's credential",
	"hostname-override":         "--node-name",
	"node-ip":                   "--node-ip",
	"root-dir":                  "--data-dir",
	"cloud-provider":            "no value: a4s has no cloud provider",
	"v":                         "a4s' own -v, as all components share one log",
	"vmodule":                   "a4s' own --vmodule, as all components share one log",
	"version":                   "a4s --version",
	"logging-format":            "no value, as all components share one log",
	"log-flush-frequency":       "no value, as all components share one log",
	"log-text-split-stream":     "no value, as all components share one log",
	"log-text-info-buffer-size": "no value, as all components share one log",
	"log-json-split-stream":     "no value, as all components share one log",
	"log-json-info-buffer-size": "no value, as all components share one log",
}

// argConfig is the operator's own configuration file, merged over a4s'.
const argConfig = "config"

// server writes the configuration to file and returns the kubelet's flags and
// configuration with the operator's arguments applied.
func (o Options) server(file string) (*options.KubeletServer, error) {
	labels, err := settings.ParseLabels(o.NodeLabels)
	if err != nil {
		return nil, err
	}
	args, userFile, err := splitArgs(o.Args)
	if err != nil {
		return nil, err
	}
	if err := o.writeConfig(file, userFile); err != nil {
		return nil, err
	}
	loader, err := configfiles.NewFsLoader(&utilfs.DefaultFs{}, file)
	if err != nil {
		return nil, fmt.Errorf("loading the kubelet's configuration: %w", err)
	}
	config, err := loader.Load(context.Background())
	if err != nil && userFile != "" {
		return nil, &problem.Input{Source: "--kubelet-arg config", Value: userFile, Err: err,
			Want: "a KubeletConfiguration, kubelet.config.k8s.io/v1beta1"}
	}
	if err != nil {
		return nil, fmt.Errorf("loading the kubelet's configuration: %w", err)
	}

	root := settings.RootDir(o.DataDir)
	flags := options.NewKubeletFlags()
	flags.KubeConfig = o.Kubeconfig
	flags.HostnameOverride = o.NodeName
	flags.NodeIP = strings.Join(o.NodeIPs, ",")
	flags.NodeLabels = labels
	flags.RootDirectory = root
	flags.CertDirectory = filepath.Join(root, "pki")
	if err := applyArgs(flags, config, args); err != nil {
		return nil, err
	}
	// The gates of the process are set when the kubelet runs, not here.
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if err := gates.SetFromMap(config.FeatureGates); err != nil {
		return nil, &problem.Input{Source: "--kubelet-arg feature-gates", Err: err,
			Want: "feature gates of the kubelet"}
	}
	if err := validation.ValidateKubeletConfiguration(config, gates); err != nil {
		return nil, &problem.Input{Source: "--kubelet-arg", Err: err}
	}
	if err := checkEviction(config); err != nil {
		return nil, &problem.Input{Source: "--kubelet-arg", Err: err, Want: "thresholds of eviction that fit together"}
	}
	if err := options.ValidateKubeletFlags(flags); err != nil {
		return nil, &problem.Input{Source: "--node-label", Err: err}
	}
	return &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *config}, nil
}

// checkEviction finds what the kubelet would find after it has begun to run.
func checkEviction(config *kubeletconfig.KubeletConfiguration) error {
	_, err := eviction.ParseThresholdConfig(config.EnforceNodeAllocatable, config.EvictionHard, config.EvictionSoft,
		config.EvictionSoftGracePeriod, config.EvictionMinimumReclaim)
	return err
}

func (o Options) writeConfig(file, userFile string) error {
	config, err := o.node().Configuration()
	if err != nil {
		return err
	}
	content, err := settings.YAML(config)
	if err != nil {
		return err
	}
	if userFile != "" {
		user, err := os.ReadFile(userFile)
		if err == nil {
			content, err = settings.Merge(content, user)
		}
		if err == nil {
			err = checkFile(content)
		}
		if err != nil {
			return &problem.Input{Source: "--kubelet-arg config", Value: userFile, Err: err,
				Want: "a file with a KubeletConfiguration"}
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("writing the kubelet's configuration: %w", err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("writing the kubelet's configuration: %w", err)
	}
	return nil
}

// checkFile finds what the kubelet's loader gets wrong in a configuration file:
// it only logs an unknown field and panics on a bad feature gate.
func checkFile(content []byte) error {
	var file kubeletv1beta1.KubeletConfiguration
	if err := yaml.UnmarshalStrict(content, &file); err != nil {
		return err
	}
	return utilfeature.DefaultMutableFeatureGate.DeepCopy().SetFromMap(file.FeatureGates)
}

// arg is one argument of the operator.
type arg struct{ name, value string }

// splitArgs parses "name=value" and takes the configuration file out of them.
func splitArgs(given []string) (args []arg, file string, err error) {
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
		instead, isRefused := refused[name]
		switch {
		case !ok:
			return nil, "", badArg(text, `"name=value"`, nil)
		case isRefused:
			return nil, "", badArg(text, instead, nil)
		case name == argConfig:
			file = value
		default:
			args = append(args, arg{name, value})
		}
	}
	return args, file, nil
}

// applyArgs sets args over flags and config. The feature gates of the
// configuration stay where args do not name them; the first one set would
// drop them.
func applyArgs(flags *options.KubeletFlags, config *kubeletconfig.KubeletConfiguration, args []arg) error {
	set := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	set.SetOutput(io.Discard) // upstream calls every one deprecated
	flags.AddFlags(set)
	gates := maps.Clone(config.FeatureGates)
	options.AddKubeletConfigFlags(set, config)
	addCadvisorFlag(set)
	for _, a := range args {
		text := a.name + "=" + a.value
		if set.Lookup(a.name) == nil {
			return badArg(text, "a flag of the kubelet", errors.New("unknown flag"))
		}
		if err := set.Set(a.name, a.value); err != nil {
			return badArg(text, "a value of the flag's type", err)
		}
	}
	for gate, on := range gates {
		if _, ok := config.FeatureGates[gate]; !ok {
			config.FeatureGates[gate] = on
		}
	}
	return nil
}

// addCadvisorFlag adds the one flag of cAdvisor that the kubelet has. Upstream's
// AddGlobalFlags adds it, too, and reads pflag's global set besides, which need not be whole.
func addCadvisorFlag(set *pflag.FlagSet) {
	if f := flag.CommandLine.Lookup("housekeeping_interval"); f != nil {
		own := pflag.PFlagFromGoFlag(f)
		own.Name = "housekeeping-interval"
		set.AddFlag(own)
	}
}

func badArg(text, want string, err error) error {
	return &problem.Input{Source: "--kubelet-arg", Value: text, Want: want, Err: err}
}
