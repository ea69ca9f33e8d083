package registry

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apimodels"
)

// addAccesses adds the models of accesses.
func addAccesses(m *apimodels.Builder) {
	m.AddKind(apimodels.Kind{
		Name: tenantapi.TenantAccess{}.OpenAPIModelName(),
		Description: "TenantAccess lets somebody into the space of a tenant: the system keeps credentials for it in " +
			"a Secret, and renews them. Who may make one in the system space can be administrator of every tenant. " +
			"One in the space of a tenant is to that space, and who makes it has to have what it gives.",
		Metadata:        "Standard object metadata. The name is a DNS label.",
		List:            tenantapi.TenantAccessList{}.OpenAPIModelName(),
		ListDescription: "TenantAccessList is a list of accesses.",
		Items:           "The accesses.",
		Properties: map[string]spec.Schema{
			"spec": m.Ref("What administrators decide about the access.",
				tenantapi.TenantAccessSpec{}.OpenAPIModelName()),
			"status": m.Ref("What the system reports about the access.",
				tenantapi.TenantAccessStatus{}.OpenAPIModelName()),
		},
	})
	format := apimodels.Text(fmt.Sprintf("Who reads the Secret. %s, the default, is a kubeconfig in the key "+
		"\"value\", as Flux and Cluster API read it. %s is a cluster of Argo CD, with its label.",
		tenantapi.FormatKubeconfig, tenantapi.FormatArgoCD))
	for _, f := range tenantapi.AccessFormats() {
		format.Enum = append(format.Enum, string(f))
	}
	m.Add(tenantapi.TenantAccessSpec{}.OpenAPIModelName(),
		"TenantAccessSpec is what administrators decide about an access. Who, where and the name of the Secret "+
			"cannot be changed.", []string{"secret"}, map[string]spec.Schema{
			"tenant": apimodels.Text("The tenant whose space it is. It can be made later. In the space of a tenant " +
				"it is left out."),
			"user": apimodels.Text(fmt.Sprintf("The user that the access is for, by a client certificate: at most %d "+
				"characters, and neither admin nor a name of system:.", mostName)),
			"groups": apimodels.List(fmt.Sprintf("The groups of the user, which the certificate says until it ends: "+
				"at most %d.", mostGroups), apimodels.Text("")),
			"serviceAccount": m.Optional("The service account of the space that the access is for instead of a user, "+
				"by a token.", tenantapi.AccessAccount{}.OpenAPIModelName()),
			"role": apimodels.Text("The ClusterRole of the space that they have as long as there is the access. If " +
				"it is not set, they have what is bound to them otherwise."),
			"namespace": apimodels.Text("The namespace of the space in which they have the role. All of the space " +
				"if it is not set."),
			"expirationSeconds": apimodels.Number(fmt.Sprintf("How long credentials are good: %d to %d, %d if not "+
				"set; at most %d for a user in the space of a tenant. They are renewed when a third of the life that "+
				"was given is left.", tenantapi.MinAccessSeconds, tenantapi.MaxAccessSeconds,
				tenantapi.DefaultAccessSeconds, tenantapi.MaxCertificateSeconds)),
			"expires": m.Optional("When the access ends: no credentials are good for longer, and the Secret and the "+
				"binding are deleted then. Never if not set.", metav1.Time{}.OpenAPIModelName()),
			"secret": m.Ref("The Secret that has the credentials.", tenantapi.AccessSecret{}.OpenAPIModelName()),
			"server": apimodels.Text("The URL of the API in the credentials, without the path of a tenant. The " +
				"address of the cluster if it is not set."),
		})
	m.Add(tenantapi.AccessAccount{}.OpenAPIModelName(), "AccessAccount names a service account of a space.",
		[]string{"namespace", "name"}, map[string]spec.Schema{
			"namespace": apimodels.Text("The namespace of the service account."),
			"name":      apimodels.Text("The name of the service account."),
		})
	m.Add(tenantapi.AccessSecret{}.OpenAPIModelName(),
		"AccessSecret names the Secret of an access, in the space that the access is in. One that is there already "+
			"is left alone.",
		[]string{"namespace", "name"}, map[string]spec.Schema{
			"namespace": apimodels.Text("The namespace of the Secret."),
			"name":      apimodels.Text("The name of the Secret."),
			"format":    format,
			"labels":    apimodels.Map("Labels of the Secret.", apimodels.Text("")),
		})
	m.Add(tenantapi.TenantAccessStatus{}.OpenAPIModelName(),
		"TenantAccessStatus is what the system reports about an access.", nil, map[string]spec.Schema{
			"conditions": apimodels.Merged("Whether the Secret can be used.", "type",
				m.Ref("", metav1.Condition{}.OpenAPIModelName())),
			"tenantUID": apimodels.Text("The UID of the Tenant that the credentials are for."),
			"expirationTimestamp": m.Optional("The end of the credentials in the Secret.",
				metav1.Time{}.OpenAPIModelName()),
			"binding": m.Optional("The binding of the role in the space of the tenant.",
				tenantapi.AccessBinding{}.OpenAPIModelName()),
			"namespaces": apimodels.Merged("The namespaces that an access in the space of a tenant says, as they "+
				"were when rights in them were looked at.", "name",
				m.Ref("", tenantapi.AccessNamespace{}.OpenAPIModelName())),
		})
	m.Add(tenantapi.AccessNamespace{}.OpenAPIModelName(),
		"AccessNamespace is a namespace of a space, which another one of its name is not.",
		[]string{"name", "uid"}, map[string]spec.Schema{
			"name":       apimodels.Text("The name of the namespace."),
			"uid":        apimodels.Text("The UID of the namespace."),
			"generation": apimodels.Number("The generation of the access when rights were looked at."),
		})
	m.Add(tenantapi.AccessBinding{}.OpenAPIModelName(),
		"AccessBinding names a RoleBinding of a space, or a ClusterRoleBinding if it is in no namespace.",
		[]string{"name"}, map[string]spec.Schema{
			"namespace": apimodels.Text("The namespace of the binding."),
			"name":      apimodels.Text("The name of the binding."),
		})
}
