package tenantapi

import "strings"

// TenantAllowances are what administrators of the cluster give a tenant beyond what tenants have,
// or leave it of that. In each list "*" alone stands for everything and None alone for nothing; a
// list that is not there is as the cluster has it for all tenants.
type TenantAllowances struct {
	// VolumeTypes are further sources of volumes, in pods and in persistent volumes, by their
	// names in the API: nfs, iscsi and so on.
	VolumeTypes []string `json:"volumeTypes,omitempty" protobuf:"bytes,1,rep,name=volumeTypes"`
	// CSIDrivers are the drivers of volumes that stand in a pod, and of persistent volumes that
	// the tenant writes.
	CSIDrivers []string `json:"csiDrivers,omitempty" protobuf:"bytes,2,rep,name=csiDrivers"`
	// HostPorts are the ports of nodes that pods may take: 8080, 9000-9010.
	HostPorts []string `json:"hostPorts,omitempty" protobuf:"bytes,3,rep,name=hostPorts"`
	// LoadBalancerPorts are the ports of nodes that Services of type LoadBalancer may have, all
	// that are free if they are not set.
	LoadBalancerPorts []string `json:"loadBalancerPorts,omitempty" protobuf:"bytes,4,rep,name=loadBalancerPorts"`
	// NodeNames lets pods say their node.
	NodeNames *bool `json:"nodeNames,omitempty" protobuf:"varint,5,opt,name=nodeNames"`
	// TolerationKeys are the keys of taints of nodes and devices that may be tolerated.
	TolerationKeys []string `json:"tolerationKeys,omitempty" protobuf:"bytes,6,rep,name=tolerationKeys"`
	// PriorityClasses are those that may be used, those of 0 and below if they are not set.
	PriorityClasses []string `json:"priorityClasses,omitempty" protobuf:"bytes,7,rep,name=priorityClasses"`
	// RuntimeClasses are those that may be used; if they are not set, all that are not for tenants
	// which list them. A pod without one gets the first.
	RuntimeClasses []string `json:"runtimeClasses,omitempty" protobuf:"bytes,8,rep,name=runtimeClasses"`
	// StorageClasses are those that may be used, and the VolumeAttributesClasses, all if they are
	// not set.
	StorageClasses []string `json:"storageClasses,omitempty" protobuf:"bytes,9,rep,name=storageClasses"`
	// DeviceClasses are those of whose devices claims may be made, all if they are not set.
	DeviceClasses []string `json:"deviceClasses,omitempty" protobuf:"bytes,10,rep,name=deviceClasses"`
	// DeviceAdminAccess lets claims have administrator's access to devices that others use.
	DeviceAdminAccess *bool `json:"deviceAdminAccess,omitempty" protobuf:"varint,11,opt,name=deviceAdminAccess"`
}

// Everything and None, alone in a list of TenantAllowances, are all and nothing. Everything alone in
// spec.images is all registries, in spec.hosts every host.
const (
	Everything = "*"
	None       = "none"
)

// EffectiveSpec is what holds for a tenant: the Tenant's own fields, else its annotations, else what
// its template says.
type EffectiveSpec struct {
	PodSecurity string            `json:"podSecurity,omitempty" protobuf:"bytes,1,opt,name=podSecurity"`
	Allow       *TenantAllowances `json:"allow,omitempty" protobuf:"bytes,2,opt,name=allow"`
	Scheduling  *TenantScheduling `json:"scheduling,omitempty" protobuf:"bytes,3,opt,name=scheduling"`
	Images      []string          `json:"images,omitempty" protobuf:"bytes,4,rep,name=images"`
	Hosts       []string          `json:"hosts,omitempty" protobuf:"bytes,5,rep,name=hosts"`
}

// SchedulingBy says which nodes run the pods of the tenant, nil for all: what the Tenant itself says, else
// what its template does, which is nil for none. template is the name of the one that says it.
func (in *Tenant) SchedulingBy(from *TenantTemplate) (s *TenantScheduling, template string) {
	if in.Spec.Scheduling != nil || from == nil || from.Spec.Scheduling == nil {
		return in.Spec.Scheduling, ""
	}
	return from.Spec.Scheduling, from.Name
}

// ImagesBy are the registries whose images pods of the tenant run, none for all, likewise.
func (in *Tenant) ImagesBy(from *TenantTemplate) []string {
	images := in.Spec.Images
	if len(images) == 0 && from != nil {
		images = from.Spec.Images
	}
	if len(images) == 1 && images[0] == Everything {
		return nil
	}
	return images
}

// HostsBy are the hosts that Ingresses of the tenant may have, likewise, with its name where that
// of the template has a placeholder.
func (in *Tenant) HostsBy(from *TenantTemplate) []string {
	if len(in.Spec.Hosts) > 0 || from == nil || len(from.Spec.Hosts) == 0 {
		return in.Spec.Hosts
	}
	out := make([]string, 0, len(from.Spec.Hosts))
	for _, host := range from.Spec.Hosts {
		out = append(out, strings.ReplaceAll(host, TenantName, in.Name))
	}
	return out
}

// OpenAPIModelName names the model in OpenAPI documents.
func (TenantAllowances) OpenAPIModelName() string { return modelName("TenantAllowances") }

// OpenAPIModelName names the model in OpenAPI documents.
func (EffectiveSpec) OpenAPIModelName() string { return modelName("EffectiveSpec") }
