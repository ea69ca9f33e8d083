package registry

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apiregistry"
)

func columns() apiregistry.Columns[*tenantapi.Tenant] {
	return apiregistry.Columns[*tenantapi.Tenant]{
		Definitions: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "the name of the tenant"},
			{Name: "Status", Type: "string", Description: "whether new objects can be made in the space, " +
				"and whether its users can only read"},
			{Name: "Age", Type: "string", Description: "the time since the tenant was made"},
			{Name: "Partition", Type: "string", Priority: 1, Description: "the tenant partition that has it"},
			{Name: "Protected", Type: "boolean", Priority: 1, Description: "whether deleting the tenant is refused"},
			{Name: "Template", Type: "string", Priority: 1, Description: "the TenantTemplate that it is made from"},
		},
		Row: func(t *tenantapi.Tenant, name, age string) []any {
			return []any{name, t.Shown(), age, t.Spec.Partition, t.Protected(), t.Spec.Template}
		},
	}
}
