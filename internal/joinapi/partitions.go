package joinapi

import (
	"slices"
	"time"
)

// PathPartitions streams Partitions values, one a line. GET; the certificate of a node.
const PathPartitions = Prefix + "partitions"

// PartitionsAlive is how often a stream of Partitions has a line at least.
const PartitionsAlive = 20 * time.Second

// Partitions are those of the cluster. A line replaces the one before.
type Partitions struct {
	// Self is the partition that says it, the one that has the node.
	Self string `json:"self"`
	// Restored is when that partition was restored from a snapshot last, empty for never: a
	// later time is greater.
	Restored string `json:"restored,omitempty"`
	// Complete says that this is what the home partition has. Without it this is what the
	// server knew last, for nodes that know nothing.
	Complete bool `json:"complete,omitempty"`
	// Partitions are in the order of their names.
	Partitions []NodePartition `json:"partitions"`
	// Removed are those that an operator took out of the cluster. Others that are missing
	// are not known to the home partition, which was restored from a snapshot.
	Removed []RemovedPartition `json:"removed,omitempty"`
}

// RemovedPartition is a partition that left the cluster.
type RemovedPartition struct {
	Name     string `json:"name"`
	Identity string `json:"identity"`
}

// NodePartition is a partition as nodes need it.
type NodePartition struct {
	Name string `json:"name"`
	// Identity tells it from another one of its name; empty from servers of before it.
	Identity string `json:"identity,omitempty"`
	// Home says that it is the partition that the cluster began with.
	Home bool `json:"home,omitempty"`
	// Tenants says that it has tenants, so nodes take pods from it.
	Tenants bool `json:"tenants,omitempty"`
	// Nodes says that it has nodes, so ClusterCIDR is a part of the pod network.
	Nodes bool `json:"nodes,omitempty"`
	// Servers are the addresses of its API, "host:port".
	Servers []string `json:"servers"`
	// ServiceCIDR is the range of its Services, ClusterCIDR that of the pods on its nodes,
	// ClusterDNS the address of DNS for its pods.
	ServiceCIDR string `json:"serviceCIDR,omitempty"`
	ClusterCIDR string `json:"clusterCIDR,omitempty"`
	ClusterDNS  string `json:"clusterDNS,omitempty"`
	// NodePortRange are the node ports of its Services.
	NodePortRange string `json:"nodePortRange,omitempty"`
}

// Equal reports whether two partitions are the same in everything.
func (p NodePartition) Equal(o NodePartition) bool {
	return slices.Equal(p.Servers, o.Servers) && p.Name == o.Name && p.Identity == o.Identity &&
		p.Home == o.Home && p.Tenants == o.Tenants && p.Nodes == o.Nodes &&
		p.ServiceCIDR == o.ServiceCIDR && p.ClusterCIDR == o.ClusterCIDR && p.ClusterDNS == o.ClusterDNS &&
		p.NodePortRange == o.NodePortRange
}

// Equal reports whether two lines say the same.
func (p Partitions) Equal(o Partitions) bool {
	return p.Self == o.Self && p.Restored == o.Restored && p.Complete == o.Complete &&
		slices.Equal(p.Removed, o.Removed) && slices.EqualFunc(p.Partitions, o.Partitions, NodePartition.Equal)
}
