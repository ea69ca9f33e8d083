package pki

import "path/filepath"

// Pair is the paths of a certificate and of its key.
type Pair struct {
	Cert string
	Key  string
}

// Files are the paths of a server's PKI.
type Files struct {
	// Dir holds all of them.
	Dir string

	// ServerCA signs what servers present: API server and kubelets.
	ServerCA Pair
	// ClientCA signs the clients that API server and kubelets accept.
	ClientCA Pair
	// RequestHeaderCA signs the aggregator's client certificate only.
	RequestHeaderCA Pair
	// EtcdServerCA signs etcd's serving and client certificates.
	EtcdServerCA Pair
	// EtcdPeerCA signs the certificates between etcd members.
	EtcdPeerCA Pair

	// ServerCASigner and ClientCASigner hold the first certificate of
	// ServerCA and ClientCA alone, for signers that take no bundle.
	ServerCASigner, ClientCASigner string
	// FormerCAs has the hashes of the server CAs that were replaced, one a
	// line; see HashBundle.
	FormerCAs string

	// ServiceAccountKey is the private key that signs service-account
	// tokens; its public half is read from the same file.
	ServiceAccountKey string

	// ServingAPIServer is the certificate of the API and supervisor port.
	ServingAPIServer Pair

	// Admin is in group system:masters.
	Admin Pair
	// Supervisor is in group system:masters too, so that the audit log
	// tells the supervisor from an administrator.
	Supervisor Pair
	// ControllerManager is user system:kube-controller-manager.
	ControllerManager Pair
	// Scheduler is user system:kube-scheduler.
	Scheduler Pair
	// APIServerKubeletClient is what the API server shows to kubelets: user
	// UserKubeletClient, in no group. It needs a binding to ClusterRole
	// system:kubelet-api-admin.
	APIServerKubeletClient Pair
	// Partition is what servers of the partition show to those of others.
	Partition Pair
	// AuthProxy is what the aggregator shows to extension API servers.
	AuthProxy Pair

	EtcdClient Pair
	EtcdServer Pair
	EtcdPeer   Pair
}

// Subjects that other packages refer to.
const (
	// UserKubeletClient is the user that the API server is to kubelets.
	UserKubeletClient = "system:kube-apiserver"
	// UserSupervisor is what the parts of a server are to its API.
	UserSupervisor = "system:a4s-supervisor"
	// UserAuthProxy is the allowed name of the request-header client.
	UserAuthProxy = "system:auth-proxy"
	// GroupMasters is the group of cluster administrators.
	GroupMasters = "system:masters"
	// GroupNodes is the group of nodes.
	GroupNodes = "system:nodes"
	// PartitionUserPrefix precedes the name of a partition in the user name of its
	// servers, which are in GroupPartitions. HomePartition is where a cluster begins.
	PartitionUserPrefix = "system:a4s:partition:"
	GroupPartitions     = "system:a4s:partitions"
	HomePartition       = "main"
	// NodeUserPrefix precedes the node name in the user name of a node.
	NodeUserPrefix = "system:node:"
	// NodePartitionPrefix precedes the name of a partition in the group of its nodes. Nodes
	// of the home partition have no such group.
	NodePartitionPrefix = "system:a4s:nodes-of:"
)

// FilesIn returns the layout below dir without touching it.
func FilesIn(dir string) *Files {
	pair := func(name string) Pair {
		p := filepath.Join(dir, filepath.FromSlash(name))
		return Pair{Cert: p + ".crt", Key: p + ".key"}
	}
	return &Files{
		Dir:                    dir,
		ServerCA:               pair("server-ca"),
		ClientCA:               pair("client-ca"),
		RequestHeaderCA:        pair("request-header-ca"),
		EtcdServerCA:           pair("etcd/server-ca"),
		EtcdPeerCA:             pair("etcd/peer-ca"),
		ServerCASigner:         filepath.Join(dir, "server-ca.nochain.crt"),
		ClientCASigner:         filepath.Join(dir, "client-ca.nochain.crt"),
		FormerCAs:              filepath.Join(dir, "server-ca.former"),
		ServiceAccountKey:      filepath.Join(dir, "service.key"),
		ServingAPIServer:       pair("serving-kube-apiserver"),
		Admin:                  pair("client-admin"),
		Supervisor:             pair("client-supervisor"),
		ControllerManager:      pair("client-controller"),
		Scheduler:              pair("client-scheduler"),
		APIServerKubeletClient: pair("client-kube-apiserver"),
		Partition:              pair("client-partition"),
		AuthProxy:              pair("client-auth-proxy"),
		EtcdClient:             pair("etcd/client"),
		EtcdServer:             pair("etcd/server-client"),
		EtcdPeer:               pair("etcd/peer-server-client"),
	}
}
