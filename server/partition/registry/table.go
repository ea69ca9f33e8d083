package registry

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/controlplane/apiregistry"
)

func partitionColumns() apiregistry.Columns[*partitionapi.Partition] {
	return apiregistry.Columns[*partitionapi.Partition]{
		Definitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "the name of the partition"},
			{Name: "Roles", Type: "string", Description: "whether it has tenants, nodes or both"},
			{Name: "Servers", Type: "string", Description: "the names of its servers"},
			{Name: "Service-CIDR", Type: "string", Description: "the range of its Services"},
			{Name: "Age", Type: "string", Description: "the time since it was registered"},
			{Name: "Cluster-CIDR", Type: "string", Priority: 1, Description: "the range of pods on its nodes"},
			{Name: "Node-Ports", Type: "string", Priority: 1, Description: "the range of its node ports"},
			{Name: "Addresses", Type: "string", Priority: 1, Description: "where its servers are"},
		},
		Row: func(p *partitionapi.Partition, name, age string) []any {
			servers := ""
			for _, s := range p.Spec.Servers {
				servers = joined(servers, s.Name)
			}
			roles, addresses := "", ""
			for _, role := range p.Spec.Roles {
				roles = joined(roles, string(role))
			}
			for _, address := range p.Addresses() {
				addresses = joined(addresses, address)
			}
			return []any{name, roles, servers, p.Spec.ServiceCIDR, age, p.Spec.ClusterCIDR, p.Spec.NodePortRange,
				addresses}
		},
	}
}

func joined(list, more string) string {
	if list == "" {
		return more
	}
	return list + "," + more
}

func placementColumns() apiregistry.Columns[*partitionapi.TenantPlacement] {
	return apiregistry.Columns[*partitionapi.TenantPlacement]{
		Definitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "the name of the tenant"},
			{Name: "Partition", Type: "string", Description: "the partition that has the tenant"},
			{Name: "Phase", Type: "string", Description: "how far its making or its end has come"},
			{Name: "Age", Type: "string", Description: "the time since its name was taken"},
		},
		Row: func(p *partitionapi.TenantPlacement, name, age string) []any {
			return []any{name, p.Spec.Partition, string(p.Status.Phase), age}
		},
	}
}
