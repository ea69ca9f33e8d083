package registry

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/controlplane/apiregistry"
)

// configColumns are the fields of the seed.
func configColumns() apiregistry.Columns[*partitionapi.DataPartitionConfig] {
	return apiregistry.Columns[*partitionapi.DataPartitionConfig]{
		Definitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "the name of the configuration"},
			{Name: "RangeStart", Type: "string", Description: "the first name of the range"},
			{Name: "IsRangeStartValid", Type: "boolean", Description: "whether the range has a start"},
			{Name: "RangeEnd", Type: "string", Description: "the name with which the next range begins"},
			{Name: "IsRangeEndValid", Type: "boolean", Description: "whether the range has an end"},
			{Name: "ServiceGroupId", Type: "string", Description: "the service group that owns the tenants"},
			{Name: "Tenants", Type: "string", Priority: 1, Description: "tenants that are owned besides the range"},
			{Name: "Age", Type: "string", Priority: 1, Description: "the time since the configuration was made"},
		},
		Row: func(c *partitionapi.DataPartitionConfig, name, age string) []any {
			return []any{name, c.RangeStart, c.IsRangeStartValid, c.RangeEnd, c.IsRangeEndValid, c.ServiceGroupID,
				strings.Join(c.Tenants, ","), age}
		},
	}
}
