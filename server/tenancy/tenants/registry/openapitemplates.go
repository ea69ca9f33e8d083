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
			"secrets": apimodels.List(fmt.Sprintf("Secrets in the space of each tenant, as copies of Secrets of "+
				"the system space that have the label %s: %q. They count as objects, and what is in them, too. A "+
				"changed Secret is copied within seconds.", tenantapi.CopyLabel, tenantapi.CopyAllowed),
				m.Ref("", tenantapi.TemplateSecret{}.OpenAPIModelName())),
			"access": apimodels.List(fmt.Sprintf("TenantAccesses that are made for each tenant: at most %d. Who "+
				"writes them has to have the right to create %s. With them, tenants are not dormant.",
				tenantapi.MaxTemplateAccesses, tenantapi.Accesses),
				m.Ref("", tenantapi.TemplateAccess{}.OpenAPIModelName())),
			"atATime": apimodels.Number(fmt.Sprintf("How many tenants get a change of the objects at a time: 1 to "+
				"%d, %d if not set.", mostAtATime, tenantapi.DefaultAtATime)),
			"podSecurity": podSecurity(),
			"allow": m.Optional("What pods, claims and Services of each tenant may use. A field of the "+
				"Tenant, or its annotation, goes before that field.", tenantapi.TenantAllowances{}.OpenAPIModelName()),
			"scheduling": m.Optional("Which nodes run the pods of each tenant that does not say it itself. Exclusive "+
				"nodes are kept for these tenants together: they share them.",
				tenantapi.TenantScheduling{}.OpenAPIModelName()),
			"images": apimodels.Set("The registries whose images pods of each tenant that has no list itself run " +
				"and mount, as in a Tenant."),
			"hosts": apimodels.Set("The hosts that Ingresses of each tenant that has no list itself may have, as in " +
				"a Tenant. " + tenantapi.TenantName + " stands for the name of the tenant."),
			"deletionProtection": apimodels.Bool("What new tenants have of it that do not say it. It stays in them."),
			"maxFailed": apimodels.Number("How many tenants may be unable to get a change. As long as there are " +
				"more, no others get it. None if not set."),
		})
	addOfTemplates(m)
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
			"access": apimodels.List("The TenantAccesses that were made for the tenant.", apimodels.Text("")),
		})
	m.Add(tenantapi.TemplateObject{}.OpenAPIModelName(), "TemplateObject names an object of a space.",
		[]string{"kind", "name"}, map[string]spec.Schema{
			"kind":      apimodels.Text("The kind of the object."),
			"namespace": apimodels.Text("The namespace of the object, if it is in one."),
			"name":      apimodels.Text("The name of the object."),
			"uid":       apimodels.Text("The UID of the object, absent as long as it could not be made."),
			"from":      apimodels.Text("The Secret of the system space that a Secret was copied from."),
		})
}

// addOfTemplates adds the models of what each tenant of a template gets besides objects.
func addOfTemplates(m *apimodels.Builder) {
	m.Add(tenantapi.TemplateSecret{}.OpenAPIModelName(),
		"TemplateSecret is a Secret in the space of each tenant of a template, a copy of one of the system space.",
		[]string{"namespace", "name", "from"}, map[string]spec.Schema{
			"namespace": apimodels.Text("The namespace in the space of the tenant, as that of an object."),
			"name":      apimodels.Text("The name of the Secret there. It and the namespace can have placeholders."),
			"labels":    apimodels.Map("Labels of the Secret there.", apimodels.Text("")),
			"from": m.Ref("The Secret that it is a copy of, with its type and all of its data.",
				tenantapi.TemplateSecretSource{}.OpenAPIModelName()),
		})
	m.Add(tenantapi.TemplateSecretSource{}.OpenAPIModelName(),
		"TemplateSecretSource names a Secret of the system space. $(tenant.name) is the name of the tenant.",
		[]string{"namespace", "name"}, map[string]spec.Schema{
			"namespace": apimodels.Text("The namespace of the Secret."),
			"name":      apimodels.Text("The name of the Secret."),
		})
	m.Add(tenantapi.TemplateAccess{}.OpenAPIModelName(),
		"TemplateAccess is a TenantAccess for each tenant of a template. $(tenant.name) in its texts is the name of "+
			"the tenant.", []string{"name", "spec"}, map[string]spec.Schema{
			"name": apimodels.Text("The name of the TenantAccess, with $(tenant.name) in it."),
			"spec": m.Ref("What the TenantAccess says. Its tenant is $(tenant.name), which the name of its "+
				"Secret has in it, too.", tenantapi.TenantAccessSpec{}.OpenAPIModelName()),
		})
}
