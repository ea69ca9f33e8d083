package allocations

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Resource is its plural name in paths and rules.
	Resource = "nodeallocations"
	// Singular is its name for one.
	Singular = "nodeallocation"
	// UserPrefix begins the user name that a partition has at another one; the name of the
	// partition follows.
	UserPrefix = "system:a4s:partition:"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NodeAllocation is what the pods of each tenant partition take of a node.
type NodeAllocation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// Shares are those of the tenant partitions that have pods on the node.
	Shares []Share `json:"shares,omitempty" protobuf:"bytes,2,rep,name=shares"`
	// Awaited are the partitions whose shares may be too low, as after the restore of a
	// snapshot. Nothing is committed on the node until each has written its share.
	Awaited []string `json:"awaited,omitempty" protobuf:"bytes,3,rep,name=awaited"`
}

// Share is what the pods of one tenant partition take of a node.
type Share struct {
	// Partition is the name of the tenant partition.
	Partition string `json:"partition" protobuf:"bytes,1,opt,name=partition"`
	// Requests is the sum of what the pods request.
	Requests corev1.ResourceList `json:"requests,omitempty" protobuf:"bytes,2,rep,name=requests"`
	// Pods is how many there are.
	Pods int64 `json:"pods,omitempty" protobuf:"varint,3,opt,name=pods"`
	// HostPorts are the ports of the node that the pods use.
	HostPorts []HostPort `json:"hostPorts,omitempty" protobuf:"bytes,4,rep,name=hostPorts"`
}

// HostPort is a port of the node.
type HostPort struct {
	Protocol corev1.Protocol `json:"protocol" protobuf:"bytes,1,opt,name=protocol"`
	// IP is the address that it is used at, 0.0.0.0 for all.
	IP   string `json:"ip" protobuf:"bytes,2,opt,name=ip"`
	Port int64  `json:"port" protobuf:"varint,3,opt,name=port"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NodeAllocationList is a list of allocations.
type NodeAllocationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []NodeAllocation `json:"items" protobuf:"bytes,2,rep,name=items"`
}
