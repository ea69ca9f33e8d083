package joinapi

// PartitionRequest is what a server says of its partition.
type PartitionRequest struct {
	Name  string   `json:"name"`
	Roles []string `json:"roles"`
	// Identity tells the partition from another one of its name.
	Identity      string `json:"identity"`
	ServiceCIDR   string `json:"serviceCIDR"`
	ClusterCIDR   string `json:"clusterCIDR"`
	NodePortRange string `json:"nodePortRange"`
	ClusterDNS    string `json:"clusterDNS"`
	// Server is the name of the node of the server, Address "host:port" of its API.
	Server  string `json:"server"`
	Address string `json:"address"`
	// Restored is when this server was restored from a snapshot last; empty for never.
	Restored string `json:"restored,omitempty"`
	// Gone are servers of the partition that do not answer: they are taken out of its list.
	Gone []PartitionServer `json:"gone,omitempty"`
}

// PartitionServer is a server of a partition, as in PartitionRequest.
type PartitionServer struct {
	Server  string `json:"server"`
	Address string `json:"address"`
}

// PartitionBundle is what a partition needs to be one of the cluster. It holds the keys
// of the CAs that all partitions share.
type PartitionBundle struct {
	// Settings are those on which all partitions must agree.
	Settings []ServerSetting `json:"settings,omitempty"`
	// PKI are files of the certificate directory, by path.
	PKI map[string][]byte `json:"pki,omitempty"`
	// ServerToken and AgentToken are the passwords in the join tokens of the cluster.
	ServerToken string `json:"serverToken,omitempty"`
	AgentToken  string `json:"agentToken,omitempty"`
}

// Membership is what a server knows of its partition.
type Membership struct {
	Name     string   `json:"name"`
	Roles    []string `json:"roles"`
	Identity string   `json:"identity"`
	// Home are URLs of servers of the home partition.
	Home []string `json:"home"`
}
