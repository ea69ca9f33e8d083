package registry

import (
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/controlplane/apimodels"
)

// Definitions are the models of the kind in OpenAPI documents.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	m := apimodels.New(ref)
	m.AddKind(apimodels.Kind{
		Name: partitionapi.DataPartitionConfig{}.OpenAPIModelName(),
		Description: "DataPartitionConfig says which tenants a service group of API servers owns: those with a name " +
			"in the range, and those that it lists. A group without one has all tenants.",
		List:            partitionapi.DataPartitionConfigList{}.OpenAPIModelName(),
		ListDescription: "DataPartitionConfigList is a list of configurations.",
		Items:           "The configurations.",
		Properties: map[string]spec.Schema{
			"rangeStart": apimodels.Text("The first name of the range, included. It counts if isRangeStartValid is " +
				"true."),
			"isRangeStartValid": apimodels.Bool("Whether the range begins with rangeStart. " +
				"Otherwise it has no start."),
			"rangeEnd": apimodels.Text("The end of the range, not included. It counts if isRangeEndValid is true."),
			"isRangeEndValid": apimodels.Bool("Whether the range ends before rangeEnd. " +
				"Otherwise it has no end."),
			"serviceGroupId": apimodels.Text("The service group that owns these tenants: what its servers have as " +
				"--service-group-id."),
			"tenants": apimodels.Set("Tenants that the group owns besides its range, wherever their names lie."),
		},
	})
	return m.Models()
}
