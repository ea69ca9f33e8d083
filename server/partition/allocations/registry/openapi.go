package registry

import (
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/server/controlplane/apimodels"
	"github.com/a4s-io/a4s/server/partition/allocations"
)

// Definitions are the models of the NodeAllocation API in OpenAPI documents.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	m := apimodels.New(ref)
	m.AddKind(apimodels.Kind{
		Name: allocations.NodeAllocation{}.OpenAPIModelName(),
		Description: "NodeAllocation is what the pods of each tenant partition take of a node. Schedulers keep it; " +
			"it is not there to be written by people.",
		Metadata:        "Standard object metadata. The name is that of the node.",
		List:            allocations.NodeAllocationList{}.OpenAPIModelName(),
		ListDescription: "NodeAllocationList is a list of allocations.",
		Items:           "The allocations.",
		Properties: map[string]spec.Schema{
			"shares": apimodels.Keyed("The shares of the tenant partitions that have pods on the node.", "partition",
				m.Ref("", allocations.Share{}.OpenAPIModelName())),
			"awaited": apimodels.Set("Partitions that have to write their shares before anything is committed on " +
				"the node."),
		},
	})
	ports := apimodels.List("The ports of the node that the pods use.",
		m.Ref("", allocations.HostPort{}.OpenAPIModelName()))
	ports.Extensions = spec.Extensions{"x-kubernetes-list-type": "atomic"}
	m.Add(allocations.Share{}.OpenAPIModelName(), "NodeAllocationShare is what the pods of one partition take.",
		[]string{"partition"}, map[string]spec.Schema{
			"partition": apimodels.Text("The name of the tenant partition."),
			"requests":  apimodels.Map("The sum of what the pods request.", m.Quantity("")),
			"pods":      apimodels.Number("How many pods there are."),
			"hostPorts": ports,
		})
	m.Add(allocations.HostPort{}.OpenAPIModelName(), "NodeAllocationHostPort is a port of the node.",
		[]string{"protocol", "ip", "port"}, map[string]spec.Schema{
			"protocol": apimodels.Text("TCP, UDP or SCTP."),
			"ip":       apimodels.Text("The address that it is used at, 0.0.0.0 for all."),
			"port":     apimodels.Number("Its number."),
		})
	return m.Models()
}
