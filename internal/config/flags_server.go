package config

import (
	"strings"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// ServerSettings is the table of `a4s server`, bound to s.
func ServerSettings(s *Server) []Setting {
	table := generalSettings(&s.Agent.Common)
	table = append(table, controlPlaneSettings(s)...)
	table = append(table, s3Settings(&s.EtcdS3)...)
	table = append(table, nodeSettings(&s.Agent)...)
	table = append(table, upstreamServerSettings(s)...)
	table = append(table, upstreamNodeSettings(&s.Agent)...)
	return append(table, loggingSettings(&s.Agent.Common)...)
}

func controlPlaneSettings(s *Server) []Setting {
	return []Setting{
		{Name: "bind-address", Category: catListener, Placeholder: "ADDRESS", DefaultText: "all addresses",
			Usage: "IPv4 address that the API and the supervisor listen on", target: &s.BindAddress},
		{Name: "https-listen-port", Category: catListener, Placeholder: "PORT", Default: "6443",
			Usage: "TCP port of the API and the supervisor", target: &s.HTTPSListenPort},
		{Name: "advertise-address", Category: catListener, Placeholder: "ADDRESS", DefaultText: "the node address",
			Usage: "IPv4 address that pods and nodes reach the API at", target: &s.AdvertiseAddress},
		{Name: "tls-san", Category: catListener, Placeholder: "NAME", Commas: true,
			Usage:  "further host name or address in the serving certificate; the first is in kubeconfigs of tenants",
			target: &s.TLSSANs},

		{Name: "token", Aliases: []string{"t"}, Env: "A4S_TOKEN", Category: catCluster, Placeholder: "TOKEN",
			DefaultText: "random, made on first start",
			Usage:       "secret that lets servers and agents join", target: &s.Token},
		{Name: "token-file", Env: "A4S_TOKEN_FILE", Category: catCluster, Placeholder: "PATH",
			Usage: "file that holds --token", target: &s.TokenFile},
		{Name: "agent-token", Env: "A4S_AGENT_TOKEN", Category: catCluster, Placeholder: "TOKEN",
			DefaultText: "--token",
			Usage:       "secret that lets only agents join", target: &s.AgentToken},
		{Name: "agent-token-file", Env: "A4S_AGENT_TOKEN_FILE", Category: catCluster, Placeholder: "PATH",
			Usage: "file that holds --agent-token", target: &s.AgentTokenFile},

		{Name: "cluster-init", Category: catCluster,
			Usage: "let further servers join this one", target: &s.ClusterInit},
		{Name: "server", Aliases: []string{"s"}, Env: "A4S_URL", Category: catCluster,
			Placeholder: "URL", Commas: true,
			Usage:  "running servers to join as another one, for example https://192.0.2.1:6443; needs --token",
			target: &s.JoinURLs},
		{Name: "disable-etcd", Category: catCluster,
			Usage:  "run no member of embedded etcd and use those of the servers that --server names",
			target: &s.DisableEtcd},
		{Name: "tenant-partition", Category: catCluster, Placeholder: "NAME",
			Usage: "begin another partition of the cluster at --cluster, which has tenants; without " +
				"--resource-partition it runs no node",
			target: &s.TenantPartition},
		{Name: "resource-partition", Category: catCluster, Placeholder: "NAME",
			Usage: "begin another partition of the cluster at --cluster, which has nodes; both flags with one " +
				"name make a partition with both",
			target: &s.ResourcePartition},
		{Name: "cluster", Env: "A4S_CLUSTER_URL", Category: catCluster, Placeholder: "URL", Commas: true,
			Usage:  "servers of the first partition of the cluster that this one is to belong to; needs --token",
			target: &s.ClusterURLs},
		{Name: "service-group-id", Category: catCluster, Placeholder: "ID",
			DefaultText: "none, which caches all tenants",
			Usage:       "service group of this server: it caches the tenants of that group's DataPartitionConfig",
			target:      &s.ServiceGroupID},
		{Name: "auto-groups", Former: []string{"auto-partition"}, Category: catCluster,
			Usage: "move tenants between service groups so that all have about the same load, at most every ten " +
				"minutes", target: &s.AutoGroups},
		{Name: "cluster-reset", Category: catCluster, FlagOnly: true,
			Usage:  "make this server the only one of its cluster, with the data it has, and end",
			target: &s.ClusterReset},

		{Name: "default-tenant", Category: catTenants, Placeholder: "NAME", DefaultText: "the system space",
			Usage:  "tenant of users whose identity names none; it is made if it does not exist",
			target: &s.DefaultTenant},
		{Name: "tenant-group", Category: catTenants, Placeholder: "GROUP=TENANT[,TENANT...]",
			Usage: "tenants of which those are members who are in this group of an identity provider; for several " +
				"groups several times", target: &s.TenantGroups},
		{Name: "tenant-default-limits", Env: "A4S_TENANT_DEFAULT_LIMITS", Category: catTenants,
			Placeholder: "NAME=VALUE", Commas: true,
			DefaultText: strings.Join(tenantapi.DefaultLimitSettings(), ", "),
			Usage: "limits of tenants that have none of their own, " +
				"as in spec.limits of a Tenant; none is no limit",
			target: &s.TenantDefaultLimits},

		{Name: "cluster-cidr", Category: catNetworking, Placeholder: "CIDR", Default: "10.42.0.0/16",
			Usage: "IPv4 range of pod addresses", target: &s.ClusterCIDR},
		{Name: "service-cidr", Category: catNetworking, Placeholder: "CIDR", Default: "10.43.0.0/16",
			Usage: "IPv4 range of service addresses", target: &s.ServiceCIDR},
		{Name: "service-node-port-range", Category: catNetworking, Placeholder: "FIRST-LAST", Default: "30000-32767",
			Usage: "range of node ports", target: &s.ServiceNodePortRange},
		{Name: "cluster-dns", Category: catNetworking, Placeholder: "ADDRESS",
			DefaultText: "tenth address of --service-cidr",
			Usage:       "service address of the cluster DNS", target: &s.ClusterDNS},
		{Name: "cluster-domain", Category: catNetworking, Placeholder: "DOMAIN", Default: "cluster.local",
			Usage: "DNS domain of the cluster", target: &s.ClusterDomain},
		{Name: "flannel-backend", Category: catNetworking, Placeholder: "NAME", Default: "vxlan",
			Choices: FlannelBackends,
			Usage:   "how pod traffic reaches other nodes", target: &s.FlannelBackend},

		{Name: "write-kubeconfig", Aliases: []string{"o"}, Env: "A4S_KUBECONFIG_OUTPUT", Category: catKubeconfig,
			Placeholder: "PATH", DefaultText: DefaultKubeconfig,
			Usage: "where the admin kubeconfig is written", target: &s.WriteKubeconfig},
		{Name: "write-kubeconfig-mode", Env: "A4S_KUBECONFIG_MODE", Category: catKubeconfig,
			Placeholder: "MODE", Default: "600",
			Usage: "octal file mode of the admin kubeconfig", target: &s.WriteKubeconfigMode},
		{Name: "write-kubeconfig-group", Env: "A4S_KUBECONFIG_GROUP", Category: catKubeconfig, Placeholder: "GROUP",
			Usage: "group that owns the admin kubeconfig", target: &s.WriteKubeconfigGroup},

		{Name: "certificate-lifetime", Category: catSecurity, Placeholder: "DURATION", Default: "8760h",
			Usage:  "how long certificates of servers and nodes are valid; they are renewed in time",
			target: &s.CertificateLifetime},
		{Name: "secrets-encryption", Category: catSecurity, Usage: "encrypt Secrets in the datastore",
			target: &s.SecretsEncryption},
		{Name: "audit-log-path", Category: catSecurity, Placeholder: "PATH", DefaultText: "no audit log",
			Usage: "where the audit log goes; - is standard output", target: &s.AuditLogPath},
		{Name: "audit-policy-file", Category: catSecurity, Placeholder: "PATH",
			DefaultText: "metadata of every request",
			Usage:       "audit policy", target: &s.AuditPolicyFile},

		{Name: "datastore-endpoint", Env: "A4S_DATASTORE_ENDPOINT", Category: catDatastore, Placeholder: "ENDPOINT",
			DefaultText: "embedded etcd",
			Usage:       "URLs of an etcd, or a database: sqlite, postgres://, mysql:// or nats://",
			target:      &s.DatastoreEndpoint},
		{Name: "datastore-cafile", Env: "A4S_DATASTORE_CAFILE", Category: catDatastore, Placeholder: "PATH",
			Usage: "CA that the datastore's certificate is checked with", target: &s.DatastoreCAFile},
		{Name: "datastore-certfile", Env: "A4S_DATASTORE_CERTFILE", Category: catDatastore, Placeholder: "PATH",
			Usage: "client certificate for the datastore", target: &s.DatastoreCertFile},
		{Name: "datastore-keyfile", Env: "A4S_DATASTORE_KEYFILE", Category: catDatastore, Placeholder: "PATH",
			Usage: "key of --datastore-certfile", target: &s.DatastoreKeyFile},

		{Name: "etcd-disable-snapshots", Category: catSnapshots, Usage: "take no snapshots on a schedule",
			target: &s.EtcdDisableSnapshots},
		{Name: "etcd-snapshot-schedule-cron", Category: catSnapshots, Placeholder: "CRON", Default: "0 */12 * * *",
			Usage: "when snapshots are taken, in local time", target: &s.EtcdSnapshotScheduleCron},
		{Name: "etcd-snapshot-retention", Category: catSnapshots, Placeholder: "NUMBER", Default: "5",
			Usage: "how many scheduled snapshots are kept; 0 is all", target: &s.EtcdSnapshotRetention},
		{Name: "etcd-snapshot-dir", Category: catSnapshots, Placeholder: "PATH",
			DefaultText: "snapshots in --data-dir",
			Usage:       "where snapshots go", target: &s.EtcdSnapshotDir},
		{Name: "etcd-snapshot-name", Category: catSnapshots, Placeholder: "NAME", Default: "etcd-snapshot",
			Usage: "beginning of the names of scheduled snapshots", target: &s.EtcdSnapshotName},
		{Name: "etcd-snapshot-compress", Category: catSnapshots, Usage: "compress snapshots",
			target: &s.EtcdSnapshotCompress},

		{Name: "default-local-storage-path", Category: catComponents, Placeholder: "PATH",
			DefaultText: "storage in --data-dir",
			Usage:       "where nodes have the volumes of the class local-path", target: &s.DefaultLocalStoragePath},
		{Name: "servicelb-reserved-ports", Category: catComponents, Placeholder: "PORT",
			Commas: true, DefaultText: "22",
			Usage:  "ports of nodes that no Service of type LoadBalancer gets, besides those of a4s",
			target: &s.ServiceLBReservedPorts},
		{Name: "disable", Category: catComponents, Placeholder: "NAME", Commas: true, Choices: Addons(),
			Usage: "leave out what a4s carries, and remove it if it is there", target: &s.Disable},
		{Name: "disable-scheduler", Category: catComponents, Usage: "run no scheduler", target: &s.DisableScheduler},
		{Name: "disable-network-policy", Category: catComponents,
			Usage: "enforce no NetworkPolicy, on no node of the cluster", target: &s.DisableNetworkPolicy},
		{Name: "disable-helm-controller", Category: catComponents,
			Usage: "leave HelmCharts and their releases as they are", target: &s.DisableHelmController},
		{Name: "disable-agent", Category: catComponents, Usage: "run no node; node settings then have no effect",
			target: &s.DisableAgent},
	}
}

func upstreamServerSettings(s *Server) []Setting {
	return []Setting{
		{Name: "kube-apiserver-arg", Category: catUpstream, Placeholder: "NAME=VALUE",
			Usage: "argument for kube-apiserver", target: &s.KubeAPIServerArgs},
		{Name: "kube-controller-manager-arg", Category: catUpstream, Placeholder: "NAME=VALUE",
			Usage: "argument for kube-controller-manager", target: &s.KubeControllerManagerArgs},
		{Name: "kube-scheduler-arg", Category: catUpstream, Placeholder: "NAME=VALUE",
			Usage: "argument for kube-scheduler", target: &s.KubeSchedulerArgs},
		{Name: "etcd-arg", Category: catUpstream, Placeholder: "NAME=VALUE", Usage: "argument for etcd",
			target: &s.EtcdArgs},
	}
}
