package joinapi

import "time"

// PathPartitionStates returns a list of PartitionState values, empty in a cluster that has one
// partition only. GET; an administrator.
const PathPartitionStates = Prefix + "partition-states"

// States of partitions.
const (
	// PartitionReady is one all of whose servers answer.
	PartitionReady = "ready"
	// PartitionPartly is one some of whose servers do not.
	PartitionPartly = "partly"
	// PartitionAway is one none of whose servers answers the server that is asked.
	PartitionAway = "away"
)

// PartitionState is a partition as one server of the cluster sees it.
type PartitionState struct {
	Name  string   `json:"name"`
	Roles []string `json:"roles"`
	State string   `json:"state"`
	// Nodes are how many it has, nil if that is not known.
	Nodes       *int   `json:"nodes,omitempty"`
	Tenants     int    `json:"tenants"`
	ServiceCIDR string `json:"serviceCIDR"`
	ClusterCIDR string `json:"clusterCIDR"`
	// Servers are "NAME (ADDRESS)", and Silent those of them that do not answer.
	Servers []string `json:"servers"`
	Silent  []string `json:"silent,omitempty"`
	// LastSeen is when a server of it answered last, nil for not since the server that is asked
	// has started.
	LastSeen *time.Time `json:"lastSeen,omitempty"`
}
