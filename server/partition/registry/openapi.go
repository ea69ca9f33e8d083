package registry

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apimodels"
)

// Definitions are the models of Partition and TenantPlacement in OpenAPI documents.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	m := apimodels.New(ref)
	m.Add(partitionapi.PartitionServer{}.OpenAPIModelName(), "A server of a partition.", []string{"name", "address"},
		map[string]spec.Schema{
			"name":    apimodels.Text("The name of its node."),
			"address": apimodels.Text("The address and port of its API."),
		})
	m.Add(partitionapi.RemovedPartition{}.OpenAPIModelName(), "A partition that an operator took out of the cluster.",
		[]string{"name", "identity"}, map[string]spec.Schema{
			"name":     apimodels.Text("Its name, which another one may have now."),
			"identity": apimodels.Text("Its identity. A partition with it is refused."),
			"at":       m.Optional("When it was removed.", metav1.Time{}.OpenAPIModelName()),
		})
	m.Add(partitionapi.PartitionSpec{}.OpenAPIModelName(), "What a partition said of itself when it was registered.",
		nil, map[string]spec.Schema{
			"roles":    apimodels.List("tenant, resource, or both.", apimodels.Text("")),
			"identity": apimodels.Text("Tells the partition from another one of its name. It never changes."),
			"servers": apimodels.Merged("Those that serve the API of the partition.", "name",
				m.Ref("", partitionapi.PartitionServer{}.OpenAPIModelName())),
			"serviceCIDR":   apimodels.Text("The range of its Services. Those of tenant partitions do not overlap."),
			"clusterCIDR":   apimodels.Text("The range of the pods on its nodes."),
			"nodePortRange": apimodels.Text("The range of the node ports of its Services."),
			"clusterDNS":    apimodels.Text("The address of DNS for pods of its tenants."),
			"removed": apimodels.Keyed("The partitions that were removed, the latest last. "+
				"The home partition has them.", "identity",
				m.Ref("", partitionapi.RemovedPartition{}.OpenAPIModelName())),
			"restored": apimodels.Text("When it was restored from a snapshot last."),
		})
	m.AddKind(apimodels.Kind{
		Name: partitionapi.Partition{}.OpenAPIModelName(),
		Description: "Partition is a control plane of the cluster: one datastore and its servers. " +
			"Servers register themselves.",
		List:            partitionapi.PartitionList{}.OpenAPIModelName(),
		ListDescription: "A list of partitions.",
		Items:           "The partitions.",
		Properties: map[string]spec.Schema{
			"spec": m.Ref("What it said of itself.", partitionapi.PartitionSpec{}.OpenAPIModelName()),
		},
	})
	m.Add(partitionapi.TenantPlacementSpec{}.OpenAPIModelName(), "Where a tenant lives.", nil,
		map[string]spec.Schema{
			"partition": apimodels.Text("The partition that has the tenant. It never changes."),
			"tenant": m.Optional("What has to be made, until it is made.",
				tenantapi.Tenant{}.OpenAPIModelName()),
		})
	m.Add(partitionapi.TenantPlacementStatus{}.OpenAPIModelName(), "What is known of the Tenant.", nil,
		map[string]spec.Schema{
			"phase":         apimodels.Text("Creating, Active or Deleting."),
			"tenantUID":     apimodels.Text("The UID of the Tenant."),
			"tenantCreated": m.Optional("When the Tenant was made.", metav1.Time{}.OpenAPIModelName()),
		})
	m.AddKind(apimodels.Kind{
		Name: partitionapi.TenantPlacement{}.OpenAPIModelName(),
		Description: "TenantPlacement says which partition has the tenant of its name. " +
			"a4s makes and removes it with the tenant.",
		List:            partitionapi.TenantPlacementList{}.OpenAPIModelName(),
		ListDescription: "A list of placements of tenants.",
		Items:           "The placements of tenants.",
		Properties: map[string]spec.Schema{
			"spec":   m.Ref("Where the tenant lives.", partitionapi.TenantPlacementSpec{}.OpenAPIModelName()),
			"status": m.Ref("What is known of it.", partitionapi.TenantPlacementStatus{}.OpenAPIModelName()),
		},
	})
	return m.Models()
}
