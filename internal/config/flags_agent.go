package config

// Categories of settings, in the order in which tables first use them.
const (
	catGeneral    = "General"
	catListener   = "Listener"
	catCluster    = "Cluster"
	catTenants    = "Tenants"
	catNetworking = "Networking"
	catKubeconfig = "Admin kubeconfig"
	catSecurity   = "Security"
	catDatastore  = "Datastore"
	catSnapshots  = "Snapshots"
	catComponents = "Components"
	catNode       = "Node"
	catNodeNet    = "Node networking"
	catRuntime    = "Container runtime"
	catUpstream   = "Arguments for upstream components"
	catLogging    = "Logging"
)

// Default paths.
const (
	// DefaultDataDir is the default of Common.DataDir.
	DefaultDataDir = "/var/lib/a4s"
	// DefaultConfigFile is read when neither --config nor A4S_CONFIG_FILE is given.
	DefaultConfigFile = "/etc/a4s/config.yaml"
	// DefaultKubeconfig is the default of Server.WriteKubeconfig.
	DefaultKubeconfig = "/etc/a4s/a4s.yaml"
	// DefaultPrivateRegistry is the default of Agent.PrivateRegistry; the
	// file need not exist.
	DefaultPrivateRegistry = "/etc/a4s/registries.yaml"
)

// AgentSettings is the table of `a4s agent`, bound to a.
func AgentSettings(a *Agent) []Setting {
	table := generalSettings(&a.Common)
	table = append(table,
		Setting{Name: "server", Aliases: []string{"s"}, Env: "A4S_URL", Category: catCluster,
			Placeholder: "URL[,URL...]", Commas: true,
			Usage: "servers of the cluster to join, such as https://192.0.2.10:6443; " +
				"one is enough while it answers, the others are learned", target: &a.ServerURLs},
		Setting{Name: "token", Aliases: []string{"t"}, Env: "A4S_TOKEN", Category: catCluster, Placeholder: "TOKEN",
			Usage: "join token, as in server/node-token in the data directory of the server", target: &a.Token},
		Setting{Name: "token-file", Env: "A4S_TOKEN_FILE", Category: catCluster, Placeholder: "PATH",
			Usage: "file that holds the join token", target: &a.TokenFile},
		Setting{Name: "lb-server-port", Env: "A4S_LB_SERVER_PORT", Category: catCluster,
			Placeholder: "PORT", Default: "6444",
			Usage: "port on 127.0.0.1 through which the node reaches all servers", target: &a.LBServerPort},
	)
	table = append(table, nodeSettings(a)...)
	table = append(table, upstreamNodeSettings(a)...)
	return append(table, loggingSettings(&a.Common)...)
}

func generalSettings(c *Common) []Setting {
	return []Setting{
		{Name: "config", Aliases: []string{"c"}, Env: "A4S_CONFIG_FILE", Category: catGeneral, Placeholder: "PATH",
			Default: DefaultConfigFile, FlagOnly: true,
			Usage:  "configuration file; files in the directory of the same name plus .d are read after it",
			target: &c.ConfigFile},
		{Name: "data-dir", Aliases: []string{"d"}, Env: "A4S_DATA_DIR", Category: catGeneral, Placeholder: "PATH",
			Default: DefaultDataDir,
			Usage:   "directory that holds all state", target: &c.DataDir},
	}
}

func loggingSettings(c *Common) []Setting {
	return []Setting{
		{Name: "debug", Env: "A4S_DEBUG", Category: catLogging, Usage: "log more of what a4s does", target: &c.Debug},
		{Name: "v", Category: catLogging, Placeholder: "LEVEL", Default: "0",
			Usage: "log level of upstream components, 0 to 10", target: &c.Verbosity},
		{Name: "vmodule", Category: catLogging, Placeholder: "PATTERN=LEVEL,...",
			Usage: "log level of upstream components by source file", target: &c.VModule},
		{Name: "log", Aliases: []string{"l"}, Category: catLogging, Placeholder: "PATH", DefaultText: "standard error",
			Usage: "file that the log is appended to", target: &c.LogFile},
	}
}

func nodeSettings(a *Agent) []Setting {
	return []Setting{
		{Name: "node-name", Env: "A4S_NODE_NAME", Category: catNode, Placeholder: "NAME", DefaultText: "host name",
			Usage: "name of the node", target: &a.NodeName},
		{Name: "with-node-id", Category: catNode,
			Usage: "append a random id, kept in /etc/a4s/node/id, to the node name", target: &a.WithNodeID},
		{Name: "node-label", Category: catNode, Placeholder: "KEY=VALUE",
			Usage: "label that the node registers with", target: &a.NodeLabels},
		{Name: "node-taint", Category: catNode, Placeholder: "KEY=VALUE:EFFECT",
			Usage: "taint that the node registers with", target: &a.NodeTaints},

		{Name: "node-ip", Aliases: []string{"i"}, Category: catNodeNet, Placeholder: "ADDRESS", Commas: true,
			DefaultText: "address of the interface of the default route",
			Usage:       "IPv4 address of the node", target: &a.NodeIPs},
		{Name: "node-external-ip", Category: catNodeNet, Placeholder: "ADDRESS", Commas: true,
			Usage: "IPv4 address that the node advertises as its external one", target: &a.NodeExternalIPs},
		{Name: "resolv-conf", Env: "A4S_RESOLV_CONF", Category: catNodeNet, Placeholder: "PATH",
			DefaultText: "that of the host",
			Usage:       "resolver file for names outside of the cluster", target: &a.ResolvConf},
		{Name: "flannel-iface", Category: catNodeNet, Placeholder: "NAME",
			DefaultText: "interface of the node address",
			Usage:       "interface for pod traffic between nodes", target: &a.FlannelIface},
		{Name: "proxy-mode", Category: catNodeNet, Placeholder: "MODE", Default: "auto", Choices: ProxyModes(),
			Usage: "how kube-proxy programs the kernel; auto probes it", target: &a.ProxyMode},
		{Name: "disable-kube-proxy", Category: catNodeNet, Usage: "run no kube-proxy", target: &a.DisableKubeProxy},

		{Name: "private-registry", Category: catRuntime, Placeholder: "PATH", Default: DefaultPrivateRegistry,
			Usage: "registries file", target: &a.PrivateRegistry},
		{Name: "snapshotter", Category: catRuntime, Placeholder: "NAME", Default: "overlayfs", Choices: Snapshotters(),
			Usage: "how containerd stores the layers of images", target: &a.Snapshotter},
		{Name: "pause-image", Category: catRuntime, Placeholder: "IMAGE", DefaultText: "the image carried in a4s",
			Usage: "image of the container that holds a pod's namespaces", target: &a.PauseImage},
		{Name: "container-runtime-endpoint", Category: catRuntime, Placeholder: "SOCKET",
			DefaultText: "the containerd carried in a4s",
			Usage:       "CRI socket of an external container runtime", target: &a.ContainerRuntimeEndpoint},
		{Name: "runtime", Category: catRuntime, Placeholder: "NAME,TYPE,ENDPOINT[,primary]",
			DefaultText: "the containerd carried in a4s",
			Usage: "a runtime for pods of the workload type container or vm: its CRI socket, " +
				"or builtin for the one carried in a4s", target: &a.Runtimes},
		{Name: "default-runtime", Category: catRuntime, Placeholder: "NAME", DefaultText: "runc, carried in a4s",
			Usage:  "runtime of the machine, such as crun or nvidia, of pods without a RuntimeClass",
			target: &a.DefaultRuntime},
		{Name: "runtime-grace-periods", Category: catRuntime, Placeholder: "N", Default: "3",
			Usage:  "node status updates that the primary runtime may miss before the node is not ready",
			target: &a.RuntimeGracePeriods},
		{Name: "vm-kernel", Category: catRuntime, Placeholder: "PATH", DefaultText: "the installed guest",
			Usage: "kernel of pods that run as virtual machines", target: &a.VMKernel},
		{Name: "vm-initrd", Category: catRuntime, Placeholder: "PATH", DefaultText: "the installed guest",
			Usage: "initial RAM disk with the modules of --vm-kernel", target: &a.VMInitrd},
		{Name: "vm-accelerator", Category: catRuntime, Placeholder: "NAME", Default: "auto", Choices: VMAccelerators(),
			Usage:  "how virtual machines run; auto boots one with KVM to see whether that works",
			target: &a.VMAccelerator},

		{Name: "bootstrap-pod-api", Category: catNode,
			Usage: "serve an API on a unix socket that runs pods without an API server", target: &a.BootstrapPodAPI},
		{Name: "leave-kernel-limits", Category: catNode,
			Usage: "do not raise the limits of the kernel that all pods share, such as fs.aio-max-nr; " +
				"--kubelet-arg protect-kernel-defaults=true implies it", target: &a.LeaveKernelLimits},
	}
}

func upstreamNodeSettings(a *Agent) []Setting {
	return []Setting{
		{Name: "kubelet-arg", Category: catUpstream, Placeholder: "NAME=VALUE", Usage: "argument for kubelet",
			target: &a.KubeletArgs},
		{Name: "kube-proxy-arg", Category: catUpstream, Placeholder: "NAME=VALUE", Usage: "argument for kube-proxy",
			target: &a.KubeProxyArgs},
	}
}

// ProxyModes returns the valid values of Agent.ProxyMode.
func ProxyModes() []string { return []string{"auto", "nftables", "iptables"} }

// VMAccelerators returns the valid values of Agent.VMAccelerator.
func VMAccelerators() []string { return []string{"auto", "kvm", "tcg"} }

// Snapshotters returns the valid values of Agent.Snapshotter.
func Snapshotters() []string { return []string{"overlayfs", "native"} }
