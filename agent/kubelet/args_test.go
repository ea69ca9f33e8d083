package kubelet

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/a4s-io/a4s/internal/problem"
)

func sample(t *testing.T) Options {
	t.Helper()
	return Options{
		NodeName:        "n1",
		DataDir:         t.TempDir(),
		NodeIPs:         []string{"192.0.2.1", "2001:db8::1"},
		NodeLabels:      []string{"example.com/a=b"},
		ClusterDNS:      "10.43.0.10",
		ClusterDomain:   "cluster.local",
		RuntimeEndpoint: "unix:///run/a4s/containerd/containerd.sock",
	}
}

func TestServer(t *testing.T) {
	o := sample(t)
	user := filepath.Join(o.DataDir, "user.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nshutdownGracePeriod: 30s\n" +
		"maxPods: 50\nevictionHard: {memory.available: 1Gi}\nfeatureGates: {MemoryQoS: false}\n"
	if err := os.WriteFile(user, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Args = []string{"max-pods=250", "config=" + user, "cluster-dns=192.0.2.53", "cluster-dns=192.0.2.54",
		"fail_swap_on=true", "feature-gates=InPlacePodVerticalScalingExclusiveCPUs=true", "node-labels=c=d"}
	file := filepath.Join(o.DataDir, "etc", "kubelet.yaml")
	s, err := o.server(file)
	if err != nil {
		t.Fatal(err)
	}
	if s.MaxPods != 250 || !slices.Equal(s.ClusterDNS, []string{"192.0.2.53", "192.0.2.54"}) || !s.FailSwapOn {
		t.Errorf("arguments do not win: maxPods %d, clusterDNS %v, failSwapOn %v", s.MaxPods,
			s.ClusterDNS, s.FailSwapOn)
	}
	if s.ShutdownGracePeriod.Duration.String() != "30s" || s.EvictionHard["memory.available"] != "1Gi" ||
		s.EvictionHard["nodefs.available"] != "5%" {
		t.Errorf("the operator's file is not merged: %v, %v", s.ShutdownGracePeriod, s.EvictionHard)
	}
	if on, ok := s.FeatureGates["MemoryQoS"]; on || !ok || !s.FeatureGates["InPlacePodVerticalScalingExclusiveCPUs"] {
		t.Errorf("feature gates of file and arguments are not both there: %v", s.FeatureGates)
	}
	if s.NodeIP != "192.0.2.1,2001:db8::1" || s.NodeLabels["example.com/a"] != "b" || s.NodeLabels["c"] != "d" ||
		s.HostnameOverride != "n1" {
		t.Errorf("flags: %+v", s.KubeletFlags)
	}
	if s.Authentication.Anonymous.Enabled || !s.Authentication.Webhook.Enabled || s.Authorization.Mode != "Webhook" ||
		s.ReadOnlyPort != 0 {
		t.Errorf("the kubelet's API is open: %+v %+v, read-only port %d", s.Authentication,
			s.Authorization, s.ReadOnlyPort)
	}
}

// TestFlagsWithoutThoseOfPrograms: arguments are read without the set in which libraries
// leave flags of upstream's programs, and which "a4s kubectl" empties.
func TestFlagsWithoutThoseOfPrograms(t *testing.T) {
	all := pflag.CommandLine
	t.Cleanup(func() { pflag.CommandLine = all })
	pflag.CommandLine = pflag.NewFlagSet("a4s", pflag.ContinueOnError)
	o := sample(t)
	o.Args = []string{"housekeeping-interval=20s"}
	if _, err := o.server(filepath.Join(o.DataDir, "kubelet.yaml")); err != nil {
		t.Error(err)
	}
}

// TestPortsAreThoseOfTheArguments: what is checked before the start is what the
// operator chose, in arguments or a file.
func TestPortsAreThoseOfTheArguments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nhealthzPort: 11248\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"none": {nil, "0.0.0.0:10250 127.0.0.1:10248"},
		"arguments": {[]string{"port=11250", "address=192.0.2.1", "read-only-port=11255"},
			"192.0.2.1:11250 127.0.0.1:10248 192.0.2.1:11255"},
		"file": {[]string{"config=" + file}, "0.0.0.0:10250 127.0.0.1:11248"},
		"off":  {[]string{"healthz-port=0"}, "0.0.0.0:10250"},
	} {
		o := sample(t)
		o.Args = tc.args
		ports, err := o.Ports()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range ports {
			got = append(got, net.JoinHostPort(p.Address, strconv.Itoa(p.Port)))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestMistakesAreRefused(t *testing.T) {
	notConfig := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(notConfig, []byte("noSuchField: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lockedGate := filepath.Join(t.TempDir(), "y.yaml")
	if err := os.WriteFile(lockedGate, []byte("featureGates: {NodeSwap: false}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"unknown argument", func(o *Options) { o.Args = []string{"max-podz=1"} }, "max-podz"},
		{"wrong type", func(o *Options) { o.Args = []string{"max-pods=many"} }, "max-pods=many"},
		{"no value", func(o *Options) { o.Args = []string{"max-pods"} }, "name=value"},
		{"what a4s decides", func(o *Options) { o.Args = []string{"root-dir=/x"} }, "--data-dir"},
		{"log level", func(o *Options) { o.Args = []string{"v=5"} }, "-v"},
		{"file is missing", func(o *Options) { o.Args = []string{"config=/nonexistent"} }, "/nonexistent"},
		{"file is something else", func(o *Options) { o.Args = []string{"config=" + notConfig} }, "noSuchField"},
		{"value out of range", func(o *Options) { o.Args = []string{"max-pods=-1"} }, "maxPods"},
		{"unknown gate", func(o *Options) { o.Args = []string{"feature-gates=NoSuchGate=true"} }, "NoSuchGate"},
		{"locked gate in the file", func(o *Options) { o.Args = []string{"config=" + lockedGate} }, "NodeSwap"},
		{"label of Kubernetes", func(o *Options) { o.NodeLabels = []string{"node-role.kubernetes.io/x=y"} },
			"node-role.kubernetes.io/x"},
		{"label without value", func(o *Options) { o.NodeLabels = []string{"x"} }, "--node-label"},
		{"taint without effect", func(o *Options) { o.NodeTaints = []string{"x"} }, "--node-taint"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := sample(t)
			if _, err := o.Ports(); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			tt.change(&o)
			_, err := o.Ports()
			var input *problem.Input
			if !errors.As(err, &input) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want a problem.Input about %q", err, tt.want)
			}
		})
	}
}
