package registry

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apimodels"
)

// addTemplates adds the models of templates, and of what a tenant has of its own.
func addTemplates(m *apimodels.Builder) {
	m.AddKind(apimodels.Kind{
		Name: tenantapi.TenantTemplate{}.OpenAPIModelName(),
		Description: "TenantTemplate is what tenants made from it (spec.template of a Tenant) get and keep: limits, " +
			"labels, and objects in their spaces.",
		Metadata:        "Standard object metadata. The name is a DNS label.",
		List:            tenantapi.TenantTemplateList{}.OpenAPIModelName(),
		ListDescription: "TenantTemplateList is a list of templates.",
		Items:           "The templates.",
		Properties: map[string]spec.Schema{
			"spec": m.Ref("What administrators decide about the tenants of the template.",
				tenantapi.TenantTemplateSpec{}.OpenAPIModelName()),
			"status": m.Ref("What the system reports about the template.",
				tenantapi.TenantTemplateStatus{}.OpenAPIModelName()),
		},
	})
	m.Add(tenantapi.TenantTemplateSpec{}.OpenAPIModelName(),
		"TenantTemplateSpec is what administrators decide about the tenants of a template.", nil,
		map[string]spec.Schema{
			"default": apimodels.Bool("Whether tenants that are made without a template have this one. One template " +
				"can be the default."),
			"limits": m.Optional("Bounds of what each tenant can use. What the Tenant itself says goes before; what "+
				"neither says is as the cluster has it for all tenants. A change holds at once.",
				tenantapi.TenantLimits{}.OpenAPIModelName()),
			"labels": apimodels.Map("Labels of each Tenant, which go before its own.", apimodels.Text("")),
			"objects": apimodels.List(fmt.Sprintf("Objects in the space of each tenant, which its users can neither "+
				"change nor delete: Namespace, ResourceQuota, LimitRange, NetworkPolicy, ServiceAccount, ConfigMap, "+
				"ClusterRole, Role, ClusterRoleBinding, RoleBinding. At most %d, and %d bytes together. "+
				"$(tenant.name), $(tenant.labels['KEY']) and $(tenant.annotations['KEY']) in their texts are what "+
				"the Tenant has.", tenantapi.MaxTemplateObjects, tenantapi.MaxTemplateBytes),
				m.Optional("", runtime.RawExtension{}.OpenAPIModelName())),
			"atATime": apimodels.Number(fmt.Sprintf("How many tenants get a change of the objects at a time: 1 to "+
				"%d, %d if not set.", mostAtATime, tenantapi.DefaultAtATime)),
			"maxFailed": apimodels.Number("How many tenants may be unable to get a change. As long as there are " +
				"more, no others get it. None if not set."),
		})
	m.Add(tenantapi.TenantTemplateStatus{}.OpenAPIModelName(),
		"TenantTemplateStatus is what the system reports about a template.", nil, map[string]spec.Schema{
			"conditions": apimodels.Merged("Whether all tenants have the template as it is now.", "type",
				m.Ref("", metav1.Condition{}.OpenAPIModelName())),
			"tenants": apimodels.Number("The number of tenants of the template whose space is made."),
			"current": apimodels.Number("The number of those that have the template as it is now."),
			"failed":  apimodels.Number("The number of those that could not get it."),
		})
	m.Add(tenantapi.AppliedTemplate{}.OpenAPIModelName(), "AppliedTemplate is what a tenant has of a template.",
		[]string{"name"}, map[string]spec.Schema{
			"name":       apimodels.Text("The name of the template that was applied last."),
			"uid":        apimodels.Text("The UID of that template."),
			"generation": apimodels.Number("The generation of that template."),
			"objects": apimodels.List("The objects of the space that are the template's. Users of the tenant can "+
				"neither change nor delete them.", m.Ref("", tenantapi.TemplateObject{}.OpenAPIModelName())),
		})
	m.Add(tenantapi.TemplateObject{}.OpenAPIModelName(), "TemplateObject names an object of a space.",
		[]string{"kind", "name"}, map[string]spec.Schema{
			"kind":      apimodels.Text("The kind of the object."),
			"namespace": apimodels.Text("The namespace of the object, if it is in one."),
			"name":      apimodels.Text("The name of the object."),
			"uid":       apimodels.Text("The UID of the object, absent as long as it could not be made."),
		})
}
