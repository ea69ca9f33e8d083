package registry

import (
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apimodels"
)

func podSecurity() spec.Schema {
	level := apimodels.Text("The level of the Pod Security Standards that pods of the tenant meet, whatever " +
		"the labels of their namespace allow: privileged, baseline or restricted; baseline if neither the Tenant " +
		"nor its template says one. privileged is trust: it gives the tenant the nodes that its pods run on.")
	level.Enum = []any{"privileged", "baseline", "restricted"}
	return level
}

// addAllowances adds the models of what tenants are allowed, and of what holds of it.
func addAllowances(m *apimodels.Builder) {
	list := func(description string) spec.Schema { return apimodels.List(description, apimodels.Text("")) }
	m.Add(tenantapi.TenantAllowances{}.OpenAPIModelName(), "TenantAllowances are what administrators of the cluster "+
		"give a tenant beyond what tenants have, or leave it of that. In a list * alone is everything and "+
		"none alone is nothing; at most 64 items.", nil, map[string]spec.Schema{
		"volumeTypes": list("Further sources of volumes, in pods and in persistent volumes, by their names in the " +
			"API: nfs, iscsi. By default those of the level restricted, without csi."),
		"csiDrivers": list("Drivers of csi volumes in pods, and of persistent volumes that the tenant writes " +
			"itself. None by default."),
		"hostPorts": list("Ports of nodes that pods may take, and ranges of them: 8080, 9000-9010. None by default."),
		"loadBalancerPorts": list("Ports of Services of type LoadBalancer, and ranges of them. By default all that " +
			"are free."),
		"nodeNames": apimodels.Bool("Whether pods may name their node, past the scheduler and so past its taints. " +
			"False by default."),
		"tolerationKeys": list("Keys of taints of nodes and of devices that may be tolerated, * for all and for a " +
			"toleration of everything. By default those of conditions of nodes."),
		"priorityClasses": list("The PriorityClasses that pods and groups of pods may have. By default those " +
			"of 0 and below. That which all pods get is in every list."),
		"runtimeClasses": list("The RuntimeClasses that pods may have. A pod without one gets the first of " +
			"the list. By default all but those with the annotation a4s.io/tenants: Listed."),
		"storageClasses": list("The StorageClasses and VolumeAttributesClasses that claims may have. A claim " +
			"without one gets the default of the cluster, and is refused if that is not in the list. All by default."),
		"deviceClasses": list("The DeviceClasses whose devices claims, templates and resources of pods may ask for. " +
			"All by default."),
		"deviceAdminAccess": apimodels.Bool("Whether claims of devices may have adminAccess, which is access " +
			"to devices that others use. False by default."),
	})
	m.Add(tenantapi.EffectiveSpec{}.OpenAPIModelName(), "EffectiveSpec is what holds for a tenant of what the "+
		"Tenant, its annotations and its template say.", nil, map[string]spec.Schema{
		"podSecurity": apimodels.Text("The level of the Pod Security Standards that pods meet."),
		"allow": m.Optional("What holds of spec.allow; what is not there is as the cluster has it for all tenants.",
			tenantapi.TenantAllowances{}.OpenAPIModelName()),
		"scheduling": m.Optional("Which nodes run the pods, all if it is not there.",
			tenantapi.TenantScheduling{}.OpenAPIModelName()),
		"images": apimodels.Set("The registries of the images, all if there are none."),
		"hosts":  apimodels.Set("The hosts of Ingresses, each that is free if there are none."),
	})
}
