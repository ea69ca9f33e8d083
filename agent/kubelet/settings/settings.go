package settings

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/internal/problem"
)

// Ports of the kubelet: its API, and the health check on loopback.
const (
	Port        = 10250
	HealthzPort = 10248
)

// maxOpenFiles is the kubelet's own default, where the machine allows it.
const maxOpenFiles = 1000000

// podPidsLimit is how many processes and threads a pod has at most: no pod
// may take all that its node has.
const podPidsLimit = int64(4096)

// Node is what the configuration is made of.
type Node struct {
	// DataDir is a4s' data directory.
	DataDir string
	// IPs are the node's addresses, one per IP family.
	IPs []string
	// Taints ("key=value:Effect") are set when the node registers.
	Taints []string
	// ClientCAFile holds the CA of the clients that the kubelet's API accepts.
	ClientCAFile string
	// CertFile and KeyFile are the serving certificate.
	CertFile string
	KeyFile  string
	// ClusterDNS and ClusterDomain go into the resolver file of pods.
	ClusterDNS    string
	ClusterDomain string
	// RuntimeEndpoint is the CRI socket, "unix:///...".
	RuntimeEndpoint string
	// ResolvConf is what pods with the node's DNS policy inherit; empty
	// means nothing.
	ResolvConf string
	// Host is what the machine allows.
	Host host.Info
}

// ConfigFile returns where the configuration is written.
func ConfigFile(dataDir string) string { return filepath.Join(dataDir, "agent", "etc", "kubelet.yaml") }

// RootDir returns the kubelet's directory for pods and plugins.
func RootDir(dataDir string) string { return filepath.Join(dataDir, "agent", "kubelet") }

// ManifestDir returns the directory of static pods.
func ManifestDir(dataDir string) string { return filepath.Join(dataDir, "agent", "pod-manifests") }

// OOMScore adjusts how soon the kernel ends the process of the kubelet when memory
// is short: after everything else.
const OOMScore = -999

// Configuration returns the kubelet's configuration.
func (n Node) Configuration() (*kubeletv1beta1.KubeletConfiguration, error) {
	taints, err := ParseTaints(n.Taints)
	if err != nil {
		return nil, err
	}
	cgroupDriver := "cgroupfs"
	if n.Host.SystemdCgroups() {
		cgroupDriver = "systemd"
	}
	// A lower score than one's own needs CAP_SYS_RESOURCE.
	oomScoreAdj := int32(0)
	if n.Host.CanLowerOOMScore {
		oomScoreAdj = OOMScore
	}
	c := &kubeletv1beta1.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeletv1beta1.SchemeGroupVersion.String(),
			Kind: "KubeletConfiguration"},
		Address: anyAddress(n.IPs),
		Port:    Port,

		HealthzPort:        ptr(int32(HealthzPort)),
		HealthzBindAddress: "127.0.0.1",

		Authentication: kubeletv1beta1.KubeletAuthentication{
			X509:      kubeletv1beta1.KubeletX509Authentication{ClientCAFile: n.ClientCAFile},
			Webhook:   kubeletv1beta1.KubeletWebhookAuthentication{Enabled: ptr(true)},
			Anonymous: kubeletv1beta1.KubeletAnonymousAuthentication{Enabled: ptr(false)},
		},
		Authorization:     kubeletv1beta1.KubeletAuthorization{Mode: kubeletv1beta1.KubeletAuthorizationModeWebhook},
		TLSCertFile:       n.CertFile,
		TLSPrivateKeyFile: n.KeyFile,

		ContainerRuntimeEndpoint: n.RuntimeEndpoint,
		StaticPodPath:            ManifestDir(n.DataDir),
		VolumePluginDir:          filepath.Join(RootDir(n.DataDir), "volumeplugins"),
		SerializeImagePulls:      ptr(false),

		CgroupDriver: cgroupDriver,
		FailCgroupV1: ptr(false),
		FailSwapOn:   ptr(false),
		OOMScoreAdj:  ptr(oomScoreAdj),
		// Pods of strangers: no system calls beyond what programs use, and an
		// end to how many processes there are.
		SeccompDefault: ptr(true),
		PodPidsLimit:   ptr(podPidsLimit),
		MaxOpenFiles:   int64(min(n.Host.MaxOpenFiles, maxOpenFiles)),
		// Upstream's defaults keep 10 to 15 % of a disk free, which is a
		// lot of a large one.
		EvictionHard: map[string]string{
			"memory.available":  "100Mi",
			"nodefs.available":  "5%",
			"nodefs.inodesFree": "5%",
			"imagefs.available": "5%",
		},

		ClusterDomain:      n.ClusterDomain,
		ResolverConfig:     ptr(n.ResolvConf),
		RegisterWithTaints: taints,
	}
	if n.ClusterDNS != "" {
		c.ClusterDNS = []string{n.ClusterDNS}
	}
	return c, nil
}

// YAML returns the configuration as a file, without the fields that the type
// writes although they say nothing.
func YAML(c *kubeletv1beta1.KubeletConfiguration) ([]byte, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubelet's configuration: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("encoding the kubelet's configuration: %w", err)
	}
	delete(fields, "logging") // one log for the whole process
	prune(fields)
	out, err := yaml.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubelet's configuration: %w", err)
	}
	return append([]byte("# Generated by a4s at every start. Change it by --kubelet-arg.\n"), out...), nil
}

// prune removes unset durations and empty objects.
func prune(fields map[string]any) {
	maps.DeleteFunc(fields, func(_ string, value any) bool {
		switch v := value.(type) {
		case map[string]any:
			prune(v)
			return len(v) == 0
		case string:
			return v == "0s"
		default:
			return value == nil
		}
	})
}

// ParseLabels parses "key=value" pairs.
func ParseLabels(labels []string) (map[string]string, error) {
	parsed := map[string]string{}
	for _, label := range labels {
		key, value, ok := strings.Cut(label, "=")
		if !ok || key == "" {
			return nil, &problem.Input{Source: "--node-label", Value: label, Want: `"key=value"`}
		}
		parsed[key] = value
	}
	return parsed, nil
}

// ParseTaints parses "key=value:Effect" and "key:Effect".
func ParseTaints(taints []string) ([]corev1.Taint, error) {
	var parsed []corev1.Taint
	for _, taint := range taints {
		keyValue, effect, _ := strings.Cut(taint, ":")
		key, value, _ := strings.Cut(keyValue, "=")
		t := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
		switch t.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			key = ""
		}
		if key == "" {
			return nil, &problem.Input{Source: "--node-taint", Value: taint,
				Want: `"key=value:effect" or "key:effect" with the effect NoSchedule, PreferNoSchedule or NoExecute`}
		}
		parsed = append(parsed, t)
	}
	return parsed, nil
}

// anyAddress is the unspecified address of the family of the first node IP.
func anyAddress(ips []string) string {
	if len(ips) > 0 {
		if addr, err := netip.ParseAddr(ips[0]); err == nil && addr.Is6() {
			return "::"
		}
	}
	return "0.0.0.0"
}

func ptr[T any](v T) *T { return &v }
