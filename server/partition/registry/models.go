package registry

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apimodels"
)

// addDirectory adds the models of Partition and TenantPlacement.
func addDirectory(m *apimodels.Builder) {
	apiVersion := apimodels.Text("The version of the schema of this object, v1.")
	kind := apimodels.Text("The kind of this object.")
	list := func(name, of, what string) {
		m.Add(name, "A list of "+what+".", []string{"items"}, map[string]spec.Schema{
			"apiVersion": apiVersion, "kind": kind,
			"metadata": m.Ref("Standard list metadata.", metav1.ListMeta{}.OpenAPIModelName()),
			"items":    apimodels.List("The "+what+".", m.Ref("", of)),
		})
	}
	m.Add(partitionapi.PartitionServer{}.OpenAPIModelName(), "A server of a partition.", []string{"name", "address"},
		map[string]spec.Schema{
			"name":    apimodels.Text("The name of its node."),
			"address": apimodels.Text("The address and port of its API."),
		})
	servers := apimodels.List("Those that serve the API of the partition.",
		m.Ref("", partitionapi.PartitionServer{}.OpenAPIModelName()))
	servers.Extensions = spec.Extensions{"x-kubernetes-list-type": "map",
		"x-kubernetes-list-map-keys":  []any{"name"},
		"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
	removedAt := m.Ref("When it was removed.", metav1.Time{}.OpenAPIModelName())
	removedAt.Default = nil
	m.Add(partitionapi.RemovedPartition{}.OpenAPIModelName(), "A partition that an operator took out of the cluster.",
		[]string{"name", "identity"}, map[string]spec.Schema{
			"name":     apimodels.Text("Its name, which another one may have now."),
			"identity": apimodels.Text("Its identity. A partition with it is refused."),
			"at":       removedAt,
		})
	removed := apimodels.List("The partitions that were removed, the latest last. The home partition has them.",
		m.Ref("", partitionapi.RemovedPartition{}.OpenAPIModelName()))
	removed.Extensions = spec.Extensions{"x-kubernetes-list-type": "map",
		"x-kubernetes-list-map-keys": []any{"identity"}}
	m.Add(partitionapi.PartitionSpec{}.OpenAPIModelName(), "What a partition said of itself when it was registered.",
		nil, map[string]spec.Schema{
			"roles":         apimodels.List("tenant, resource, or both.", apimodels.Text("")),
			"identity":      apimodels.Text("Tells the partition from another one of its name. It never changes."),
			"servers":       servers,
			"serviceCIDR":   apimodels.Text("The range of its Services. Those of tenant partitions do not overlap."),
			"clusterCIDR":   apimodels.Text("The range of the pods on its nodes."),
			"nodePortRange": apimodels.Text("The range of the node ports of its Services."),
			"clusterDNS":    apimodels.Text("The address of DNS for pods of its tenants."),
			"removed":       removed,
			"restored":      apimodels.Text("When it was restored from a snapshot last."),
		})
	m.Add(partitionapi.Partition{}.OpenAPIModelName(), "Partition is a control plane of the cluster: one datastore "+
		"and its servers. Servers register themselves.", nil, map[string]spec.Schema{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": m.Ref("Standard object metadata.", metav1.ObjectMeta{}.OpenAPIModelName()),
		"spec":     m.Ref("What it said of itself.", partitionapi.PartitionSpec{}.OpenAPIModelName()),
	})
	list(partitionapi.PartitionList{}.OpenAPIModelName(), partitionapi.Partition{}.OpenAPIModelName(), "partitions")

	tenant := m.Ref("What has to be made, until it is made.", tenantapi.Tenant{}.OpenAPIModelName())
	tenant.Default = nil
	m.Add(partitionapi.TenantPlacementSpec{}.OpenAPIModelName(), "Where a tenant lives.", nil,
		map[string]spec.Schema{
			"partition": apimodels.Text("The partition that has the tenant. It never changes."),
			"tenant":    tenant,
		})
	created := m.Ref("When the Tenant was made.", metav1.Time{}.OpenAPIModelName())
	created.Default = nil
	m.Add(partitionapi.TenantPlacementStatus{}.OpenAPIModelName(), "What is known of the Tenant.", nil,
		map[string]spec.Schema{
			"phase":         apimodels.Text("Creating, Active or Deleting."),
			"tenantUID":     apimodels.Text("The UID of the Tenant."),
			"tenantCreated": created,
		})
	m.Add(partitionapi.TenantPlacement{}.OpenAPIModelName(), "TenantPlacement says which partition has the tenant "+
		"of its name. a4s makes and removes it with the tenant.", nil, map[string]spec.Schema{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": m.Ref("Standard object metadata.", metav1.ObjectMeta{}.OpenAPIModelName()),
		"spec":     m.Ref("Where the tenant lives.", partitionapi.TenantPlacementSpec{}.OpenAPIModelName()),
		"status":   m.Ref("What is known of it.", partitionapi.TenantPlacementStatus{}.OpenAPIModelName()),
	})
	list(partitionapi.TenantPlacementList{}.OpenAPIModelName(),
		partitionapi.TenantPlacement{}.OpenAPIModelName(), "placements of tenants")
}
