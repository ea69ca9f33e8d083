package join

import "time"

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
	// PathStatus returns ServerStatus. GET; admin certificate.
	PathStatus = Prefix + "status"
	// PathPodAddresses streams PodAddress values, one a line. GET; the
	// certificate of a node.
	PathPodAddresses = Prefix + "podaddresses"
	// PathCertificates renews all certificates of this server, however long
	// they are still valid, and returns CertificatesResponse. POST; admin
	// certificate.
	PathCertificates = Prefix + "certificates"
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
	// FieldNodeName and FieldNodeIPs are the field of the first cause of a
	// status with reason Invalid.
	FieldNodeName = "nodeName"
	FieldNodeIPs  = "nodeIPs"
)

// MaxBody bounds the body of a request and of a response.
const MaxBody = 1 << 20

// ClusterConfig is what a node must agree on with its cluster.
type ClusterConfig struct {
	ClusterCIDR    string `json:"clusterCIDR"`
	ServiceCIDR    string `json:"serviceCIDR"`
	ClusterDNS     string `json:"clusterDNS"`
	ClusterDomain  string `json:"clusterDomain"`
	FlannelBackend string `json:"flannelBackend"`
	Version        string `json:"version"`
	Kubernetes     string `json:"kubernetes"`
}

// NodeRequest asks for the certificates of a node.
type NodeRequest struct {
	NodeName string `json:"nodeName"`
	// NodePassword is the node credential: random, made by the node once,
	// and bound to NodeName by the first request that names it.
	NodePassword string   `json:"nodePassword"`
	NodeIPs      []string `json:"nodeIPs"`
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
	Version    string            `json:"version"`
	Kubernetes string            `json:"kubernetes"`
	Components []ComponentStatus `json:"components"`
}
