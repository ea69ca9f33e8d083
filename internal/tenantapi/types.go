package tenantapi

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Kind is the kind of a tenant's object.
	Kind = "Tenant"
	// Resource is its plural name in paths and rules.
	Resource = "tenants"
	// UsageResource is the plural name of what the users of a space see of its limits, and
	// UsageName is what the one of each space is called.
	UsageResource = "tenantusages"
	UsageName     = "usage"
	// Finalizer keeps a deleted Tenant until its space is empty.
	Finalizer = "a4s.io/space"
)

// CauseDeletionProtected is the cause in the refusal of a deletion that
// spec.deletionProtection forbids.
const CauseDeletionProtected metav1.CauseType = "DeletionProtected"

// CauseMember is the cause in the refusal of a request by which a member of several tenants chose
// none; there is one for each, with the name as its message.
const CauseMember metav1.CauseType = "MemberOfTenant"

// Phase says whether new objects can be made in a space.
type Phase string

const (
	// Active spaces can be used.
	Active Phase = "Active"
	// Terminating spaces are being emptied, then their Tenant goes.
	Terminating Phase = "Terminating"
)

// Condition types of a Tenant.
const (
	// SpaceReady is true when the space can be used: its default objects exist, or
	// they are made at its first request (ReasonDormant).
	SpaceReady = "SpaceReady"
	// SpaceEmpty is what the deletion of a Tenant waits for.
	SpaceEmpty = "SpaceEmpty"
)

// Reasons of SpaceReady.
const (
	// ReasonMade is a space whose default objects exist.
	ReasonMade = "Made"
	// ReasonDormant is a space that nobody has used yet: its Tenant is all there is. One
	// that keeps nodes, or whose template gives access to it, has it never.
	ReasonDormant = "Dormant"
)

// CRDPolicy decides which definition serves a custom resource that both the
// tenant and the system space define.
type CRDPolicy string

const (
	// NeverUseSystemCRDUnlessForced ignores the definitions of the system
	// space but those that are forced on every tenant.
	NeverUseSystemCRDUnlessForced CRDPolicy = "NeverUseSystemCRDUnlessForced"
	// SystemCRDFirst prefers the definition of the system space.
	SystemCRDFirst CRDPolicy = "SystemCRDFirst"
	// LocalCRDFirst prefers the tenant's own definition.
	LocalCRDFirst CRDPolicy = "LocalCRDFirst"
)

// DefaultCRDPolicy, LocalCRDFirst, is that of tenants for which none is set.
const DefaultCRDPolicy = LocalCRDFirst

// CRDPolicies are all policies.
func CRDPolicies() []CRDPolicy {
	return []CRDPolicy{LocalCRDFirst, SystemCRDFirst, NeverUseSystemCRDUnlessForced}
}

// NodeAccess is what a tenant may do with the nodes of the cluster.
type NodeAccess string

// NodesReadOnly lets users of the tenant whom its roles let do so get, list and
// watch nodes, without what leads to machines or says of others.
const NodesReadOnly NodeAccess = "ReadOnly"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Tenant owns a space: namespaces and cluster-scoped objects that nobody but
// its users and the administrators of the cluster can see.
type Tenant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Spec   TenantSpec   `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	Status TenantStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TenantList is a list of tenants.
type TenantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []Tenant `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// TenantSpec is what administrators decide about a tenant.
type TenantSpec struct {
	// Limits bound what the tenant can use, beside those of the cluster.
	Limits *TenantLimits `json:"limits,omitempty" protobuf:"bytes,1,opt,name=limits"`
	// CRDPolicy is LocalCRDFirst if it is not set.
	CRDPolicy CRDPolicy `json:"crdPolicy,omitempty" protobuf:"bytes,2,opt,name=crdPolicy"`
	// Nodes says what the tenant sees of the nodes of the cluster, nothing if it
	// is not set.
	Nodes NodeAccess `json:"nodes,omitempty" protobuf:"bytes,3,opt,name=nodes"`
	// Partition is the tenant partition that has the tenant. It is chosen if it is not
	// set, and never changes.
	Partition string `json:"partition,omitempty" protobuf:"bytes,4,opt,name=partition"`
	// DeletionProtection keeps the tenant from being deleted. A new one that does not say it has
	// that of its template.
	DeletionProtection *bool `json:"deletionProtection,omitempty" protobuf:"varint,10,opt,name=deletionProtection"`
	// Cordoned lets the users of the tenant read, and nothing else.
	Cordoned bool `json:"cordoned,omitempty" protobuf:"varint,11,opt,name=cordoned"`
	// Scheduling says which nodes run the pods of the tenant; all that take them if it is
	// not set.
	Scheduling *TenantScheduling `json:"scheduling,omitempty" protobuf:"bytes,12,opt,name=scheduling"`
	// Images are the registries, with or without the beginning of a path, whose images pods
	// of the tenant run; all if there are none.
	Images []string `json:"images,omitempty" protobuf:"bytes,13,rep,name=images"`
	// Template is the TenantTemplate that the tenant is made from, none if it is not set.
	Template string `json:"template,omitempty" protobuf:"bytes,14,opt,name=template"`
	// PodSecurity is the level of the Pod Security Standards that pods of the tenant meet,
	// baseline if nobody says another.
	PodSecurity string `json:"podSecurity,omitempty" protobuf:"bytes,15,opt,name=podSecurity"`
	// Allow gives the tenant more than tenants have, or less.
	Allow *TenantAllowances `json:"allow,omitempty" protobuf:"bytes,16,opt,name=allow"`
	// Hosts are those that Ingresses of the tenant may have: names, "*.example.com" for all names below
	// one, "*" alone for every host and none. Other tenants without such a list do not get them. If there
	// are none, the tenant may have every name that nobody else has or may have. Those of the system
	// space are kept for it, and are not all that it may have.
	Hosts []string `json:"hosts,omitempty" protobuf:"bytes,17,rep,name=hosts"`
	// Authentication is the tenant's own provider of OpenID Connect, none if it is not set.
	Authentication *TenantAuthentication `json:"authentication,omitempty" protobuf:"bytes,20,opt,name=authentication"`
}

// Protected reports whether deleting the tenant is refused.
func (in *Tenant) Protected() bool {
	return in.Spec.DeletionProtection != nil && *in.Spec.DeletionProtection
}

// TenantScheduling says which nodes run the pods of a tenant, whatever the pods say. It has
// the fields that the scheduling of a RuntimeClass has, and one more.
type TenantScheduling struct {
	// NodeSelector is the labels that a node has to have to run pods of the tenant. All
	// nodes have them if there are none.
	NodeSelector map[string]string `json:"nodeSelector,omitempty" protobuf:"bytes,1,rep,name=nodeSelector"`
	// Tolerations are given to every new pod of the tenant.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty" protobuf:"bytes,2,rep,name=tolerations"`
	// Exclusive keeps the pods of all other tenants off these nodes.
	Exclusive bool `json:"exclusive,omitempty" protobuf:"varint,3,opt,name=exclusive"`
}

// KeepsNodes reports whether the Tenant itself says that there are nodes which run no pods of
// other tenants.
func (in *Tenant) KeepsNodes() bool { return in.Spec.Scheduling != nil && in.Spec.Scheduling.Exclusive }

// ReadsOnly reports whether the users of the tenant can only read. One that is being
// deleted is not cordoned any more: its operators may have to finalize what goes.
func (in *Tenant) ReadsOnly() bool { return in.Spec.Cordoned && in.DeletionTimestamp.IsZero() }

// Shown is the phase as tables show it, with what an administrator would look for.
func (in *Tenant) Shown() string {
	if in.ReadsOnly() {
		return string(in.Status.Phase) + ",Cordoned"
	}
	return string(in.Status.Phase)
}

// TenantLimits bound a tenant. What is not set is as the cluster has it for all
// tenants, and what that has not set either is not bounded.
type TenantLimits struct {
	// Namespaces is the number of namespaces, the default ones included.
	Namespaces *int64 `json:"namespaces,omitempty" protobuf:"varint,1,opt,name=namespaces"`
	// Objects is the number of objects of all kinds together.
	Objects *int64 `json:"objects,omitempty" protobuf:"varint,2,opt,name=objects"`
	// RequestsInFlight is the number of requests that are served at a time.
	RequestsInFlight *int64 `json:"requestsInFlight,omitempty" protobuf:"varint,3,opt,name=requestsInFlight"`
	// Bytes is what all objects take in the datastore, keys included.
	Bytes *resource.Quantity `json:"bytes,omitempty" protobuf:"bytes,4,opt,name=bytes"`
	// Pods is the number of pods that have not ended.
	Pods *int64 `json:"pods,omitempty" protobuf:"varint,5,opt,name=pods"`
	// CPU is what these pods request, or are limited to without a request.
	CPU *resource.Quantity `json:"cpu,omitempty" protobuf:"bytes,6,opt,name=cpu"`
	// Memory is what these pods request, or are limited to without a request.
	Memory *resource.Quantity `json:"memory,omitempty" protobuf:"bytes,7,opt,name=memory"`
	// Storage is what all claims of volumes request.
	Storage *resource.Quantity `json:"storage,omitempty" protobuf:"bytes,8,opt,name=storage"`
	// Definitions is the number of definitions of custom resources.
	Definitions *int64 `json:"definitions,omitempty" protobuf:"varint,9,opt,name=definitions"`
	// LoadBalancers is the number of services of type LoadBalancer.
	LoadBalancers *int64 `json:"loadBalancers,omitempty" protobuf:"varint,10,opt,name=loadBalancers"`
	// EventsPerSecond is how many events are written, on average.
	EventsPerSecond *int64 `json:"eventsPerSecond,omitempty" protobuf:"varint,11,opt,name=eventsPerSecond"`
	// Services is the number of services, each of which can take an address.
	Services *int64 `json:"services,omitempty" protobuf:"varint,30,opt,name=services"`
	// NodePorts is the number of node ports of all services.
	NodePorts *int64 `json:"nodePorts,omitempty" protobuf:"varint,31,opt,name=nodePorts"`
	// LoadBalancerPorts is the number of ports of services of type LoadBalancer.
	LoadBalancerPorts *int64 `json:"loadBalancerPorts,omitempty" protobuf:"varint,32,opt,name=loadBalancerPorts"`
	// Watches is the number of watches of the tenant's users that are open at a time.
	Watches *int64 `json:"watches,omitempty" protobuf:"varint,33,opt,name=watches"`
	// DefinitionBytes is what the definitions of custom resources take of Bytes. A server
	// keeps each in its memory in several forms.
	DefinitionBytes *resource.Quantity `json:"definitionBytes,omitempty" protobuf:"bytes,34,opt,name=definitionBytes"`
	// Share is how much of the server's time the tenant has beside the shares of others while
	// all ask for more than there is: 1 to 100, DefaultShare if nobody says another.
	Share *int64 `json:"share,omitempty" protobuf:"varint,35,opt,name=share"`
	// Accesses is the number of TenantAccesses in the space, each of which the system looks after.
	Accesses *int64 `json:"accesses,omitempty" protobuf:"varint,37,opt,name=accesses"`
	// Devices is the number of devices that claims ask for, by their DeviceClass.
	// Those of a class that is not there are not bounded.
	Devices map[string]int64 `json:"devices,omitempty" protobuf:"bytes,20,rep,name=devices"`
	// Quota bounds, over the whole space, what a ResourceQuota bounds in a namespace, by the
	// names that it has there: count/jobs.batch, requests.example.com/gpu and so on.
	Quota map[string]resource.Quantity `json:"quota,omitempty" protobuf:"bytes,36,rep,name=quota"`
}

// TenantStatus is what a4s reports about a tenant.
type TenantStatus struct {
	Phase      Phase              `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase"`
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type" protobuf:"bytes,2,rep,name=conditions"`
	// Usage is what the tenant uses of each limit. It is counted for whoever
	// reads the Tenant, and nobody can write it.
	Usage []LimitUsage `json:"usage,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,3,rep,name=usage"`
	// Template is what the space has of spec.template.
	Template *AppliedTemplate `json:"template,omitempty" protobuf:"bytes,4,opt,name=template"`
	// Effective is what holds of what the Tenant and its template say. It is found out for whoever
	// reads the Tenant, and nobody can write it.
	Effective *EffectiveSpec `json:"effective,omitempty" protobuf:"bytes,5,opt,name=effective"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TenantUsage is what a tenant uses of its limits, for the users of its space. There is one in each
// space, called UsageName. It is counted for who reads it, and nobody can write it.
type TenantUsage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// Usage is that of each limit, as in the status of the Tenant.
	Usage []LimitUsage `json:"usage,omitempty" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,2,rep,name=usage"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TenantUsageList is a list of them: of the one of the space.
type TenantUsageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []TenantUsage `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// LimitUsage is what a tenant uses of one limit.
type LimitUsage struct {
	// Name is that of the limit.
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
	// Used is how much of it is used now.
	Used resource.Quantity `json:"used" protobuf:"bytes,2,opt,name=used"`
	// Limit is the bound, the tenant's own or that of all; nil is none.
	Limit *resource.Quantity `json:"limit,omitempty" protobuf:"bytes,3,opt,name=limit"`
	// Counts says what counts towards it.
	Counts string `json:"counts,omitempty" protobuf:"bytes,4,opt,name=counts"`
}
