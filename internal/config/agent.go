package config

// Common is what every long-running mode has.
type Common struct {
	// ConfigFile is the configuration file that was read, if it exists.
	ConfigFile string
	// DataDir holds all state of a4s.
	DataDir string
	// Debug raises the log level of a4s to debug.
	Debug bool
	// Verbosity is klog's level for upstream components (-v).
	Verbosity int
	// VModule is klog's per-file level (--vmodule).
	VModule string
	// LogFile receives the log instead of standard error.
	LogFile string
}

// Agent is the configuration of `a4s agent`. Each field is one flag; the
// table in flags_agent.go binds them.
type Agent struct {
	Common

	// ServerURLs are servers of the cluster to join, "https://host:6443".
	ServerURLs []string
	// LBServerPort is the local port through which the node reaches its
	// servers; 0 means that it reaches its only server directly.
	LBServerPort int
	// Token is the join token, in K10 form or the bare password.
	Token string
	// TokenFile is a file that holds Token.
	TokenFile string

	// NodeName is the name of the Node object; empty means the host name.
	NodeName string
	// WithNodeID appends a persistent random id to the node name.
	WithNodeID bool
	// NodeIPs are the node's addresses; empty means the address of the
	// interface that holds the default route.
	NodeIPs []string
	// NodeExternalIPs are advertised as external addresses.
	NodeExternalIPs []string
	// NodeLabels are set at registration, each "key=value".
	NodeLabels []string
	// NodeTaints are set at registration, each "key=value:Effect".
	NodeTaints []string

	// ResolvConf is the resolver file that pods and the DNS forwarder
	// inherit from; empty means the host's.
	ResolvConf string
	// FlannelIface is the interface for traffic between nodes; empty means
	// the one that holds the node IP.
	FlannelIface string
	// PrivateRegistry is the registries file.
	PrivateRegistry string
	// Snapshotter is containerd's snapshotter.
	Snapshotter string
	// PauseImage is the sandbox image; empty means the one carried inside.
	PauseImage string
	// ContainerRuntimeEndpoint is an external CRI socket; empty means the
	// containerd carried inside.
	ContainerRuntimeEndpoint string
	// Runtimes are the runtimes of the node beside or instead of the
	// containerd carried inside, each "name,workloadType,endpoint[,primary]".
	Runtimes []string
	// DefaultRuntime runs pods without a RuntimeClass; empty means runc, the one carried inside.
	DefaultRuntime string
	// RuntimeGracePeriods is for how many node status updates the primary
	// runtime may be gone before the node is not ready.
	RuntimeGracePeriods int
	// VMKernel and VMInitrd are the guest of pods that run as virtual
	// machines; empty means the one that was installed.
	VMKernel string
	VMInitrd string
	// VMAccelerator is "auto", "kvm" or "tcg".
	VMAccelerator string
	// BootstrapPodAPI serves the API for pods without an API server.
	BootstrapPodAPI bool
	// LeaveKernelLimits keeps a4s from raising limits of the machine's kernel.
	LeaveKernelLimits bool
	// ProxyMode is "auto", "nftables" or "iptables".
	ProxyMode string
	// DisableKubeProxy leaves kube-proxy out.
	DisableKubeProxy bool

	// Arguments for upstream components, each "name=value".
	KubeletArgs   []string
	KubeProxyArgs []string
}

// FlannelBackends are the valid values of Server.FlannelBackend.
var FlannelBackends = []string{"vxlan", "host-gw", FlannelNone}

// FlannelNone leaves the network of pods, and their addresses, to something else.
const FlannelNone = "none"
