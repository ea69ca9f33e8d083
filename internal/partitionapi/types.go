package partitionapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Resource is its plural name in paths and rules.
	Resource = "datapartitionconfigs"
	// Singular is its name for one.
	Singular = "datapartitionconfig"
	// DefaultGroup is the service group of a server that is not given one.
	DefaultGroup = "0"
	// MaxTenants is how many tenants one configuration lists: every request of a tenant is
	// looked up among them, and each has a range of keys.
	MaxTenants = 1000
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DataPartitionConfig says which tenants a service group of API servers owns: those
// with a name in [RangeStart, RangeEnd), and those it lists.
type DataPartitionConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// RangeStart is inclusive: the first name of the range. It counts if IsRangeStartValid is
	// set, and the range has no start otherwise.
	RangeStart        string `json:"rangeStart,omitempty" protobuf:"bytes,2,opt,name=rangeStart"`
	IsRangeStartValid bool   `json:"isRangeStartValid,omitempty" protobuf:"varint,3,opt,name=isRangeStartValid"`
	// RangeEnd is exclusive: the name with which the next range begins. It counts if
	// IsRangeEndValid is set, and the range has no end otherwise.
	RangeEnd        string `json:"rangeEnd,omitempty" protobuf:"bytes,4,opt,name=rangeEnd"`
	IsRangeEndValid bool   `json:"isRangeEndValid,omitempty" protobuf:"varint,5,opt,name=isRangeEndValid"`
	// ServiceGroupID is the service group that owns the tenants.
	ServiceGroupID string `json:"serviceGroupId,omitempty" protobuf:"bytes,6,opt,name=serviceGroupId"`
	// Tenants are owned by the group besides its range, wherever their names lie. It is
	// an addition to the seed.
	Tenants []string `json:"tenants,omitempty" protobuf:"bytes,7,rep,name=tenants"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// DataPartitionConfigList is a list of configurations.
type DataPartitionConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []DataPartitionConfig `json:"items" protobuf:"bytes,2,rep,name=items"`
}
