package registry

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/controlplane/apimodels"
)

// Definitions are the models of the APIs of partitions in OpenAPI documents.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	m := apimodels.New(ref)
	apiVersion := apimodels.Text("The version of the schema of this object, v1.")
	kind := apimodels.Text("The kind of this object.")
	tenants := apimodels.List("Tenants that the group owns besides its range, wherever their names lie.",
		apimodels.Text(""))
	tenants.Extensions = spec.Extensions{"x-kubernetes-list-type": "set"}

	m.Add(partitionapi.DataPartitionConfig{}.OpenAPIModelName(), "DataPartitionConfig says which tenants a service "+
		"group of API servers owns: those with a name in the range, and those that it lists. A group without one "+
		"has all tenants.", nil, map[string]spec.Schema{
		"apiVersion": apiVersion,
		"kind":       kind,
		"metadata":   m.Ref("Standard object metadata.", metav1.ObjectMeta{}.OpenAPIModelName()),
		"rangeStart": apimodels.Text("The first name of the range, included. It counts if isRangeStartValid is true."),
		"isRangeStartValid": apimodels.Bool("Whether the range begins with rangeStart. " +
			"Otherwise it has no start."),
		"rangeEnd": apimodels.Text("The end of the range, not included. It counts if isRangeEndValid is true."),
		"isRangeEndValid": apimodels.Bool("Whether the range ends before rangeEnd. " +
			"Otherwise it has no end."),
		"serviceGroupId": apimodels.Text("The service group that owns these tenants: what its servers have as " +
			"--service-group-id."),
		"tenants": tenants,
	})
	m.Add(partitionapi.DataPartitionConfigList{}.OpenAPIModelName(), "DataPartitionConfigList is a list of "+
		"configurations.", []string{"items"}, map[string]spec.Schema{
		"apiVersion": apiVersion,
		"kind":       kind,
		"metadata":   m.Ref("Standard list metadata.", metav1.ListMeta{}.OpenAPIModelName()),
		"items": apimodels.List("The configurations.",
			m.Ref("", partitionapi.DataPartitionConfig{}.OpenAPIModelName())),
	})
	addDirectory(m)
	return m.Models()
}
