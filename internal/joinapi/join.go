package joinapi

import (
	"net/netip"
	"time"
)

// Paths of the supervisor, on the same port as the API.
const (
	// PathPing answers "pong" without a credential.
	PathPing = "/ping"
	// PathCACerts returns the server CA bundle in PEM without a credential;
	// clients compare it with the hash in their token.
	PathCACerts = "/cacerts"
	// Prefix is what every authenticated path begins with.
	Prefix = "/v1-a4s/"
	// PathConfig returns ClusterConfig. GET; token or node certificate.
	PathConfig = Prefix + "config"
	// PathNode signs the certificates of a node. POST NodeRequest, returns
	// NodeResponse; token or the node's own certificate.
	PathNode = Prefix + "node"
	// PathServer returns ServerBundle. GET; the server token.
	PathServer = Prefix + "server"
	// PathPartition registers a server of another partition with the home partition.
	// POST PartitionRequest, returns PartitionBundle; the server token, or the certificate
	// of the partition, which gets an empty one.
	PathPartition = Prefix + "partition"
	// PathMembers returns Members. GET; admin certificate.
	PathMembers = Prefix + "members"
	// PathRemoveMember removes a member of the datastore. POST MemberRequest;
	// admin certificate.
	PathRemoveMember = Prefix + "members/remove"
	// PathStatus returns ServerStatus. GET; admin certificate.
	PathStatus = Prefix + "status"
	// PathPacketFilter streams netpolicy.FilterLine values, one a line: the
	// pods' addresses, and what network policies the node has to enforce. GET;
	// the certificate of a node.
	PathPacketFilter = Prefix + "packetfilter"
	// PathPodAddresses streams PodAddress values, one a line, for nodes of
	// versions without PathPacketFilter: make test-upgrade begins with one, whose
	// agents meet newer servers. GET; the certificate of a node.
	PathPodAddresses = Prefix + "podaddresses"
	// PathNetworkPolicies streams netpolicy.Line values, one a line, for nodes
	// of versions without PathPacketFilter. GET; the certificate of a node.
	PathNetworkPolicies = Prefix + "networkpolicies"
	// PathLocalVolumes streams LocalVolumes values, one a line. GET; the
	// certificate of a node.
	PathLocalVolumes = Prefix + "localvolumes"
	// PathLocalVolumeDone takes a LocalVolumeDone. POST; the certificate of
	// the node that has the volume.
	PathLocalVolumeDone = PathLocalVolumes + "/done"
	// PathCertificates renews all certificates of this server, however long
	// they are still valid, and returns CertificatesResponse. POST; admin
	// certificate.
	PathCertificates = Prefix + "certificates"
	// PathCAs replaces the CAs of all servers, which take the new ones
	// at their next start. POST CAsRequest, returns
	// CAsResponse; admin certificate.
	PathCAs = Prefix + "authorities"
	// PathEncryption returns EncryptionStatus. GET; admin certificate.
	PathEncryption = Prefix + "secrets-encryption"
	// PathEncryptionStart begins a change of how Secrets are stored. POST
	// EncryptionRequest, returns nothing; admin certificate.
	PathEncryptionStart = Prefix + "secrets-encryption/start"
	// PathRevokeNode ends the certificates of a node. POST RevokeRequest, returns
	// RevokeResponse; admin certificate.
	PathRevokeNode = Prefix + "node/revoke"
	// PathToken replaces the server or agent token. PUT TokenRequest;
	// admin certificate.
	PathToken = Prefix + "token"
)

// User names of the basic-auth credential in a join token.
const (
	UserServer = "server"
	UserNode   = "node"
)

// Reasons and fields of the metav1.Status with which a supervisor refuses a
// request; an agent turns them into the flag that is at fault.
const (
	// ReasonNodeNameTaken means that the node name is bound to the password
	// of another machine.
	ReasonNodeNameTaken = "NodeNameTaken"
	// ReasonNodeEnded means that the certificate of the node is dead: its Node was deleted, or
	// it was revoked.
	ReasonNodeEnded = "NodeEnded"
	// FieldNodeName and FieldNodeIPs are the field of the first cause of a
	// status with reason Invalid.
	FieldNodeName   = "nodeName"
	FieldNodeIPs    = "nodeIPs"
	FieldFurtherIPs = "furtherIPs"
)

// MaxBody bounds the body of a request and of a response.
const MaxBody = 1 << 20

// ClusterConfig is what a node must agree on with its cluster.
type ClusterConfig struct {
	ClusterCIDR    netip.Prefix `json:"clusterCIDR"`
	ServiceCIDR    netip.Prefix `json:"serviceCIDR"`
	ClusterDNS     netip.Addr   `json:"clusterDNS"`
	ClusterDomain  string       `json:"clusterDomain"`
	FlannelBackend string       `json:"flannelBackend"`
	// DisableNetworkPolicy says that no network policy is enforced.
	DisableNetworkPolicy bool `json:"disableNetworkPolicy,omitempty"`
	// ServiceGroup is that of the server, "" for none. Of a server with one a node merges
	// the streams of all groups.
	ServiceGroup string `json:"serviceGroup,omitempty"`

	Version    string `json:"version"`
	Kubernetes string `json:"kubernetes"`
}

// NodeRequest asks for the certificates of a node.
type NodeRequest struct {
	NodeName string `json:"nodeName"`
	// NodePassword is the node credential: random, made by the node once,
	// and bound to NodeName by the first request that names it.
	NodePassword string   `json:"nodePassword"`
	NodeIPs      []string `json:"nodeIPs"`
	// FurtherIPs are other addresses that the node will say are its own: those of
	// --node-external-ip and of the interface that its tunnel uses. It is null of agents that
	// do not know of it.
	FurtherIPs []string `json:"furtherIPs"`
	// ClientCSR and ServingCSR are PEM requests. The server takes only the
	// public keys from them; subject and names are the server's decision.
	ClientCSR  []byte `json:"clientCSR"`
	ServingCSR []byte `json:"servingCSR"`
}

// NodeResponse carries the signed certificates and the CAs, all in PEM.
type NodeResponse struct {
	// ClientCert authenticates the node as system:node:<name>.
	ClientCert []byte `json:"clientCert"`
	// ServingCert is for the kubelet's own port.
	ServingCert []byte `json:"servingCert"`
	// ClientCA signs the clients that the kubelet accepts.
	ClientCA []byte `json:"clientCA"`
	// ServerCA signs the servers that the node trusts.
	ServerCA []byte `json:"serverCA"`
}

// PodAddress tells to whom an address of the pod network belongs. A stream
// begins with all that there are and a line with only Complete; changes
// follow. Lines without any field keep the connection alive.
type PodAddress struct {
	IP string `json:"ip,omitempty"`
	// Tenant is the space of the pod; nodes themselves are in the system's.
	Tenant string `json:"tenant,omitempty"`
	// Shared says that the pods of every tenant may reach the address.
	Shared bool `json:"shared,omitempty"`
	// Deleted says that the address belongs to nobody any more.
	Deleted bool `json:"deleted,omitempty"`
	// Complete says that everything was told.
	Complete bool `json:"complete,omitempty"`
}

// PodAddressesAlive is how often a stream has a line at least.
const PodAddressesAlive = 20 * time.Second

// LocalVolumes is everything that a node has to do for its local volumes at
// this moment. A line replaces the one before.
type LocalVolumes struct {
	Volumes []LocalVolume `json:"volumes"`
}

// LocalVolume is a directory that a node has to make or to remove.
type LocalVolume struct {
	// Name is the composite name of the volume, UID that of the object.
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Path is absolute; its last part begins with Name and "_".
	Path string `json:"path"`
	// Remove says that the directory has to go, with what is in it.
	Remove bool `json:"remove,omitempty"`
}

// LocalVolumeDone says that a directory was made or removed, or why it could
// not be.
type LocalVolumeDone struct {
	Name    string `json:"name"`
	UID     string `json:"uid"`
	Removed bool   `json:"removed,omitempty"`
	Error   string `json:"error,omitempty"`
}

// LocalVolumesAlive is how often a stream of LocalVolumes has a line at least.
const LocalVolumesAlive = 20 * time.Second

// ServerBundle is what a server needs to become another one of a cluster. It
// holds the keys of all authorities: whoever has it is a server.
type ServerBundle struct {
	// Settings are those on which all servers must agree.
	Settings []ServerSetting `json:"settings"`
	// PKI are files of the certificate directory, by path.
	PKI map[string][]byte `json:"pki"`
	// Encryption is the configuration of encryption at rest, if there is one.
	Encryption []byte `json:"encryption,omitempty"`
	// ServerToken and AgentToken are the passwords in the join tokens.
	ServerToken string `json:"serverToken"`
	AgentToken  string `json:"agentToken"`
	// Datastore are client URLs of the members of the datastore; none if
	// others cannot join it.
	Datastore []string `json:"datastore"`
	// Partition is that of the servers, nil for the home partition.
	Partition *Membership `json:"partition,omitempty"`
	// Cluster is what an etcd that the servers share says of whose it is, "" if they do
	// not share one.
	Cluster string `json:"cluster,omitempty"`
}

// ServerSetting is a flag of `a4s server` and its value.
type ServerSetting struct {
	Flag  string `json:"flag"`
	Value string `json:"value"`
}

// Members are those of the datastore.
type Members struct {
	Members []Member `json:"members"`
}

// Member is the part of the datastore on one server.
type Member struct {
	// Name is that of the server's node; one that never started has none.
	Name    string `json:"name,omitempty"`
	ID      string `json:"id"`
	Address string `json:"address"`
	// Learner says that it has no vote yet.
	Learner bool `json:"learner,omitempty"`
}

// CAsRequest asks for new CAs.
type CAsRequest struct {
	// Path is a directory of the server's machine with the CAs; empty means
	// to make them.
	Path string `json:"path,omitempty"`
	// Force goes on where those before cannot vouch for the new ones.
	Force bool `json:"force,omitempty"`
	// Finish ends the trust in those that were replaced before.
	Finish bool `json:"finish,omitempty"`
}

// CAsResponse says what was replaced, for the next start of servers.
type CAsResponse struct {
	// Replaced are the names of the CAs.
	Replaced []string `json:"replaced"`
	// Servers are all servers, Missing those of them that have not fetched
	// the new CAs so far.
	Servers []string `json:"servers"`
	Missing []string `json:"missing,omitempty"`
	// Token is the complete join token from then on.
	Token string `json:"token"`
}

// MemberRequest names a member by its name or ID.
type MemberRequest struct {
	Member string `json:"member"`
}

// RevokeRequest names a node.
type RevokeRequest struct {
	NodeName string `json:"nodeName"`
}

// RevokeResponse says what the server knew of the node.
type RevokeResponse struct {
	// Joined says that the node had joined, and Registered that it has a Node.
	Joined     bool `json:"joined"`
	Registered bool `json:"registered"`
}

// TokenRequest replaces a token.
type TokenRequest struct {
	// Which is UserServer or UserNode.
	Which string `json:"which"`
	// Password is the new secret; empty asks the server to make one.
	Password string `json:"password,omitempty"`
}

// TokenResponse returns the complete new token, in K10 form.
type TokenResponse struct {
	Token string `json:"token"`
}

// CertificatesResponse tells which certificates were renewed.
type CertificatesResponse struct {
	// Renewed are paths on the server.
	Renewed []string `json:"renewed"`
}

// ComponentStatus is the state of one supervised component.
type ComponentStatus struct {
	Name      string `json:"name"`
	Ready     bool   `json:"ready"`
	Restarts  int    `json:"restarts"`
	LastError string `json:"lastError,omitempty"`
	// Since is when the component entered this state, RFC 3339.
	Since string `json:"since"`
}

// ServerStatus is the state of one server process.
type ServerStatus struct {
	Version    string `json:"version"`
	Kubernetes string `json:"kubernetes"`
	// Datastore says which one the server uses, "" if it is too old to say.
	Datastore string `json:"datastore,omitempty"`
	// Partition is that of the server, and Roles are what it is for; "" if it is too old
	// to say.
	Partition string   `json:"partition,omitempty"`
	Roles     []string `json:"roles,omitempty"`
	// ServiceGroup is that of the server, "" for none.
	ServiceGroup string `json:"serviceGroup,omitempty"`
	// ServiceGroupRevision is that of the newest change of DataPartitionConfigs that its
	// caches have met, 0 if that is not known.
	ServiceGroupRevision int64             `json:"serviceGroupRevision,omitempty"`
	Components           []ComponentStatus `json:"components"`
	// Problems are what the server knows to be wrong with its machine.
	Problems []Problem `json:"problems"`
}

// Problem is a condition of package health that holds.
type Problem struct {
	Code     string    `json:"code"`
	Severity string    `json:"severity"`
	Title    string    `json:"title"`
	Subject  string    `json:"subject,omitempty"`
	Detail   string    `json:"detail,omitempty"`
	Cause    string    `json:"cause"`
	Fix      string    `json:"fix"`
	Since    time.Time `json:"since,omitzero"`
}
