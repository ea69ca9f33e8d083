package partitionapi

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

const (
	// Partitions is the plural name of Partition in paths and rules.
	Partitions = "partitions"
	// Placements is that of TenantPlacement.
	Placements = "tenantplacements"
	// Home is the partition that a cluster begins with. It keeps the directory.
	Home = pki.HomePartition

	// UserPrefix stands before the name of a partition in the user name of its servers,
	// and Group is the group of all of them.
	UserPrefix = pki.PartitionUserPrefix
	Group      = pki.GroupPartitions

	// PathPrefix stands before the name of a partition in the paths of its API.
	PathPrefix = "/partitions/"

	// ResourcePartitionLabel names, on the copy of a node in a tenant partition, the
	// partition that the node is registered with. Other nodes do not have it.
	ResourcePartitionLabel = "a4s.io/resource-partition"
)

// Role is what a partition is for.
type Role string

const (
	// RoleTenant partitions have tenants and what these make.
	RoleTenant Role = "tenant"
	// RoleResource partitions have nodes.
	RoleResource Role = "resource"
)

// Roles are all roles.
func Roles() []Role { return []Role{RoleTenant, RoleResource} }

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Partition is a control plane of the cluster: one datastore and its servers. Home
// keeps the objects, and each server of each partition follows them.
type Partition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec PartitionSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
}

// PartitionSpec is what a partition said of itself when it was registered.
type PartitionSpec struct {
	Roles []Role `json:"roles,omitempty" protobuf:"bytes,1,rep,name=roles"`
	// Identity tells the partition from another one of its name. It is made with the
	// partition and never changes.
	Identity string `json:"identity,omitempty" protobuf:"bytes,2,opt,name=identity"`
	// Servers are those that serve the API of the partition.
	Servers []PartitionServer `json:"servers,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,3,rep,name=servers"`
	// ServiceCIDR is the range of its Services: no two tenant partitions overlap.
	ServiceCIDR string `json:"serviceCIDR,omitempty" protobuf:"bytes,4,opt,name=serviceCIDR"`
	// ClusterCIDR is the range of the pods on its nodes.
	ClusterCIDR string `json:"clusterCIDR,omitempty" protobuf:"bytes,5,opt,name=clusterCIDR"`
	// NodePortRange is that of its Services, "30000-32767".
	NodePortRange string `json:"nodePortRange,omitempty" protobuf:"bytes,6,opt,name=nodePortRange"`
	// ClusterDNS is the address of DNS for pods of its tenants.
	ClusterDNS string `json:"clusterDNS,omitempty" protobuf:"bytes,7,opt,name=clusterDNS"`
	// Removed are the partitions that an operator took out of the cluster, the latest last.
	// The home partition has it: what is missing in its list, and is not among these, may
	// be what it forgot.
	Removed []RemovedPartition `json:"removed,omitempty" protobuf:"bytes,8,rep,name=removed"`
	// Restored changes when the partition is restored from a snapshot: its tenants are those
	// of then.
	Restored string `json:"restored,omitempty" protobuf:"bytes,9,opt,name=restored"`
}

// MaxRemoved is how many removed partitions are remembered. Every server and every node
// is told of all of them.
const MaxRemoved = 100

// RemovedPartition is one that has left the cluster.
type RemovedPartition struct {
	// Name is free for another one.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// Identity is that of the partition, which never comes back.
	Identity string `json:"identity" protobuf:"bytes,2,opt,name=identity"`
	// At is when it was removed.
	At metav1.Time `json:"at,omitempty" protobuf:"bytes,3,opt,name=at"`
}

// PartitionServer is a server of a partition.
type PartitionServer struct {
	// Name is that of its node.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// Address is "host:port" of its API.
	Address string `json:"address" protobuf:"bytes,2,opt,name=address"`
}

// Has reports whether the partition has a role.
func (in *Partition) Has(role Role) bool { return slices.Contains(in.Spec.Roles, role) }

// Addresses are those of the servers.
func (in *Partition) Addresses() []string {
	var out []string
	for _, s := range in.Spec.Servers {
		out = append(out, s.Address)
	}
	return out
}

// Remove takes note of a removed partition, and forgets the oldest if there are too many.
func (in *PartitionSpec) Remove(p RemovedPartition) {
	in.Removed = append(slices.DeleteFunc(in.Removed, func(o RemovedPartition) bool {
		return o.Identity == p.Identity
	}), p)
	if more := len(in.Removed) - MaxRemoved; more > 0 {
		in.Removed = slices.Delete(in.Removed, 0, more)
	}
}

// HasRemoved finds the record of a removed partition by its identity.
func (in *PartitionSpec) HasRemoved(identity string) (RemovedPartition, bool) {
	i := slices.IndexFunc(in.Removed, func(o RemovedPartition) bool { return o.Identity == identity })
	if i < 0 {
		return RemovedPartition{}, false
	}
	return in.Removed[i], true
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PartitionList is a list of partitions.
type PartitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []Partition `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// PlacementPhase says how far the making or the end of a tenant has come.
type PlacementPhase string

const (
	// PlacementCreating means that the Tenant is being made in its partition.
	PlacementCreating PlacementPhase = "Creating"
	// PlacementActive means that it is there.
	PlacementActive PlacementPhase = "Active"
	// PlacementDeleting means that it goes. The placement goes after it.
	PlacementDeleting PlacementPhase = "Deleting"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TenantPlacement says which partition has the tenant of its name. Home keeps them, and
// a name that has one is taken in the whole cluster.
type TenantPlacement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   TenantPlacementSpec   `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	Status TenantPlacementStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// TenantPlacementSpec is where a tenant lives.
type TenantPlacementSpec struct {
	// Partition never changes.
	Partition string `json:"partition,omitempty" protobuf:"bytes,1,opt,name=partition"`
	// Tenant is what has to be made, until it is made: whoever finds a placement that
	// was left behind can go on with it.
	Tenant *tenantapi.Tenant `json:"tenant,omitempty" protobuf:"bytes,2,opt,name=tenant"`
}

// TenantPlacementStatus is what is known of the Tenant. Certificates are checked
// against it by servers that do not have the Tenant.
type TenantPlacementStatus struct {
	Phase PlacementPhase `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase"`
	// TenantUID and TenantCreated are the UID and the age of the Tenant.
	TenantUID     types.UID    `json:"tenantUID,omitempty" protobuf:"bytes,2,opt,name=tenantUID"`
	TenantCreated *metav1.Time `json:"tenantCreated,omitempty" protobuf:"bytes,3,opt,name=tenantCreated"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TenantPlacementList is a list of placements.
type TenantPlacementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []TenantPlacement `json:"items" protobuf:"bytes,2,rep,name=items"`
}
