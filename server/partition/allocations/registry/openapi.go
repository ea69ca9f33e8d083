package registry

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/server/controlplane/apimodels"
	"github.com/a4s-io/a4s/server/partition/allocations"
)

// Definitions are the models of the NodeAllocation API in OpenAPI documents.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	m := apimodels.New(ref)
	apiVersion := apimodels.Text("The version of the schema of this object, v1.")
	kind := apimodels.Text("The kind of this object.")
	shares := apimodels.List("The shares of the tenant partitions that have pods on the node.",
		m.Ref("", allocations.Share{}.OpenAPIModelName()))
	shares.Extensions = spec.Extensions{
		"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"partition"}}
	awaited := apimodels.List("Partitions that have to write their shares before anything is committed on the node.",
		apimodels.Text(""))
	awaited.Extensions = spec.Extensions{"x-kubernetes-list-type": "set"}
	m.Add(allocations.NodeAllocation{}.OpenAPIModelName(), "NodeAllocation is what the pods of each tenant "+
		"partition take of a node. Schedulers keep it; it is not there to be written by people.", nil,
		map[string]spec.Schema{
			"apiVersion": apiVersion,
			"kind":       kind,
			"metadata": m.Ref("Standard object metadata. The name is that of the node.",
				metav1.ObjectMeta{}.OpenAPIModelName()),
			"shares":  shares,
			"awaited": awaited,
		})
	m.Add(allocations.NodeAllocationList{}.OpenAPIModelName(), "NodeAllocationList is a list of allocations.",
		[]string{"items"}, map[string]spec.Schema{
			"apiVersion": apiVersion,
			"kind":       kind,
			"metadata":   m.Ref("Standard list metadata.", metav1.ListMeta{}.OpenAPIModelName()),
			"items": apimodels.List("The allocations.",
				m.Ref("", allocations.NodeAllocation{}.OpenAPIModelName())),
		})
	quantity := m.Ref("", resource.Quantity{}.OpenAPIModelName())
	quantity.Default = nil
	ports := apimodels.List("The ports of the node that the pods use.",
		m.Ref("", allocations.HostPort{}.OpenAPIModelName()))
	ports.Extensions = spec.Extensions{"x-kubernetes-list-type": "atomic"}
	m.Add(allocations.Share{}.OpenAPIModelName(), "NodeAllocationShare is what the pods of one partition take.",
		[]string{"partition"}, map[string]spec.Schema{
			"partition": apimodels.Text("The name of the tenant partition."),
			"requests": {SchemaProps: spec.SchemaProps{
				Description: "The sum of what the pods request.", Type: []string{"object"},
				AdditionalProperties: &spec.SchemaOrBool{Allows: true, Schema: &quantity}}},
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
