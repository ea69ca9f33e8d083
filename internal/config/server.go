package config

import (
	"net/netip"
	"time"
)

// Server is the configuration of `a4s server`. Each field is one flag; the
// table in flags_server.go binds them.
type Server struct {
	// Agent configures the node that runs in the same process, unless
	// DisableAgent is set. Its ServerURLs and Token are filled by the server.
	Agent Agent
	// DisableAgent makes a server without a node.
	DisableAgent bool

	// BindAddress is the address that the API and the supervisor listen on;
	// empty means all addresses.
	BindAddress string
	// HTTPSListenPort is the TCP port of the API and the supervisor.
	HTTPSListenPort int
	// AdvertiseAddress is the address that pods and nodes reach the API at;
	// empty means the node IP.
	AdvertiseAddress string
	// TLSSANs are further names and addresses in the serving certificate.
	TLSSANs []string

	// Token lets servers and agents join; empty means the one on disk, or a
	// new random one on first start.
	Token string
	// TokenFile is a file that holds Token.
	TokenFile string
	// AgentToken lets only agents join; empty means Token.
	AgentToken string
	// AgentTokenFile is a file that holds AgentToken.
	AgentTokenFile string

	// ClusterInit lets further servers join.
	ClusterInit bool
	// JoinURLs are servers, "https://host:6443", of which one is asked to let
	// this one join if it has no data yet.
	JoinURLs []string
	// DisableEtcd makes a server without a member of embedded etcd: it uses those of the
	// servers that it joins.
	DisableEtcd bool
	// ClusterReset makes this server the only one of its cluster and ends.
	ClusterReset bool

	// TenantPartition and ResourcePartition name the partition of a cluster that this
	// server begins, as one with tenants, with nodes, or both. Without them, and unless
	// JoinURLs lead to one, it is of the home partition.
	TenantPartition, ResourcePartition string
	// ClusterURLs are servers of the home partition, "https://host:6443".
	ClusterURLs []string

	// ServiceGroupID is the service group whose tenants this server caches; empty for
	// one that caches all tenants.
	ServiceGroupID string
	// AutoGroups has the server that leads move tenants between service groups.
	AutoGroups bool

	// DefaultTenant is the tenant of users whose identity names none; empty
	// means the system space. It is made if it does not exist.
	DefaultTenant string

	// TenantGroups are the tenants of which members of groups are members, "group=tenant,tenant" each, in the
	// syntax of tenantapi.ParseGroups.
	TenantGroups []string

	// TenantDefaultLimits change the limits of tenants that have none of their
	// own, "name=value" each, in the syntax of tenantapi.ParseLimits.
	TenantDefaultLimits []string

	// ClusterCIDR is the range that pod addresses come from.
	ClusterCIDR string
	// ServiceCIDR is the range that service addresses come from.
	ServiceCIDR string
	// ServiceNodePortRange is the range of node ports, "30000-32767".
	ServiceNodePortRange string
	// ClusterDNS is the service address of the cluster DNS; empty means the
	// tenth address of ServiceCIDR.
	ClusterDNS string
	// Network is what the addresses and ranges above say; Validate fills it.
	Network Network
	// ClusterDomain is the DNS domain of the cluster.
	ClusterDomain string
	// FlannelBackend is one of FlannelBackends.
	FlannelBackend string

	// WriteKubeconfig is where the admin kubeconfig is written; empty means
	// /etc/a4s/a4s.yaml.
	WriteKubeconfig string
	// WriteKubeconfigMode is the octal file mode of the admin kubeconfig.
	WriteKubeconfigMode string
	// WriteKubeconfigGroup is the group that owns the admin kubeconfig.
	WriteKubeconfigGroup string

	// CertificateLifetime is how long certificates are valid that this server
	// signs for itself and for nodes, "8760h".
	CertificateLifetime string
	// SecretsEncryption encrypts Secrets at rest.
	SecretsEncryption bool
	// AuditLogPath turns the audit log on and says where it goes.
	AuditLogPath string
	// AuditPolicyFile is the audit policy; empty means one that records
	// metadata of every request.
	AuditPolicyFile string

	// DatastoreEndpoint says which datastore is used, in the syntax of package
	// dsn; empty means embedded etcd. It can have a password in it.
	DatastoreEndpoint string
	// DatastoreCAFile, DatastoreCertFile and DatastoreKeyFile are PEM files
	// for connections to it.
	DatastoreCAFile, DatastoreCertFile, DatastoreKeyFile string

	// EtcdDisableSnapshots turns scheduled snapshots off.
	EtcdDisableSnapshots bool
	// EtcdSnapshotScheduleCron says when snapshots are taken, in the syntax
	// of cron.
	EtcdSnapshotScheduleCron string
	// EtcdSnapshotRetention is how many scheduled snapshots are kept; 0 is
	// all of them.
	EtcdSnapshotRetention int
	// EtcdSnapshotDir is where snapshots go; Complete puts
	// <data-dir>/snapshots there if it is empty.
	EtcdSnapshotDir string
	// EtcdSnapshotName begins the names of scheduled snapshots.
	EtcdSnapshotName string
	// EtcdSnapshotCompress compresses snapshots.
	EtcdSnapshotCompress bool
	// EtcdS3 is where snapshots are copied to.
	EtcdS3 EtcdS3

	// DefaultLocalStoragePath is where nodes have local volumes; Complete puts
	// <data-dir>/storage there if it is empty.
	DefaultLocalStoragePath string
	// ServiceLBReservedPorts are ports that no Service of type LoadBalancer
	// gets on nodes, besides those of a4s.
	ServiceLBReservedPorts []string

	// Disable names what of Addons is left out, and removed if an earlier
	// start brought it.
	Disable []string
	// DisableScheduler leaves the scheduler out.
	DisableScheduler bool
	// DisableNetworkPolicy leaves network policies unenforced.
	DisableNetworkPolicy bool
	// DisableHelmController leaves HelmCharts alone.
	DisableHelmController bool

	// Arguments for upstream components, each "name=value".
	KubeAPIServerArgs         []string
	KubeControllerManagerArgs []string
	KubeSchedulerArgs         []string
	EtcdArgs                  []string

	// given is where the settings that somebody gave came from, by name.
	given map[string]string
}

// Given reports whether a setting was given: as a flag, in a file or in the environment, and not by default.
func (s *Server) Given(name string) bool {
	_, ok := s.given[name]
	return ok
}

// CertificateLife is CertificateLifetime as a duration, 0 if it is not set.
func (s *Server) CertificateLife() time.Duration {
	life, _ := time.ParseDuration(s.CertificateLifetime) // Validate refuses others
	return life
}

// Network is the addresses of a server and the ranges of its cluster.
type Network struct {
	// Bind is the address to listen on, Advertise that which others reach; not valid
	// for those of the machine.
	Bind, Advertise netip.Addr
	// Pods and Services are the ranges of the cluster, DNS the address of its DNS.
	Pods, Services netip.Prefix
	DNS            netip.Addr
}

// Local is the address at which this machine reaches the API.
func (n Network) Local() string {
	if n.Bind.IsValid() && !n.Bind.IsUnspecified() {
		return n.Bind.String()
	}
	return "127.0.0.1"
}
