package registry

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/apimodels"
)

// Definitions are the models of the Tenant API in OpenAPI documents. Types of
// fields for server-side apply are derived from them too.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	m := apimodels.New(ref)
	m.AddKind(apimodels.Kind{
		Name: tenantapi.Tenant{}.OpenAPIModelName(),
		Description: "Tenant owns a space: namespaces and cluster-scoped objects that nobody but its users and the " +
			"administrators of the cluster can see.",
		Metadata:        "Standard object metadata. The name is a DNS label of at most 24 characters.",
		List:            tenantapi.TenantList{}.OpenAPIModelName(),
		ListDescription: "TenantList is a list of tenants.",
		Items:           "The tenants.",
		Properties: map[string]spec.Schema{
			"spec":   m.Ref("What administrators decide about the tenant.", tenantapi.TenantSpec{}.OpenAPIModelName()),
			"status": m.Ref("What the system reports about the tenant.", tenantapi.TenantStatus{}.OpenAPIModelName()),
		},
	})
	policy := apimodels.Text(fmt.Sprintf(
		"Which definition serves a custom resource that both the tenant and the system space "+
			"define. %s if not set.", tenantapi.DefaultCRDPolicy))
	for _, p := range tenantapi.CRDPolicies() {
		policy.Enum = append(policy.Enum, string(p))
	}
	nodes := apimodels.Text(fmt.Sprintf(
		"What users of the tenant may do with the nodes of the cluster, if its roles let "+
			"them: %s is to get, list and watch them, without addresses, annotations and images. Nothing if not set.",
		tenantapi.NodesReadOnly))
	nodes.Enum = []any{string(tenantapi.NodesReadOnly)}
	m.Add(tenantapi.TenantSpec{}.OpenAPIModelName(), "TenantSpec is what administrators decide about a tenant.", nil,
		map[string]spec.Schema{
			"limits": m.Optional("Bounds of what the tenant can use; what is not set is as the cluster has it "+
				"for all tenants.", tenantapi.TenantLimits{}.OpenAPIModelName()),
			"crdPolicy": policy,
			"nodes":     nodes,
			"partition": apimodels.Text("The tenant partition that has the tenant. If it is not set, the one with " +
				"the fewest tenants is chosen. It never changes."),
			"deletionProtection": apimodels.Bool("Whether deleting the tenant is refused, whoever asks. Set it to " +
				"false to delete the tenant; left out it stays. It does not protect what is in the space. A new " +
				"tenant that does not say it has that of its template."),
			"cordoned": apimodels.Bool("Whether users of the tenant, its administrators and service accounts among " +
				"them, can only read: whatever changes something is refused, and connections to containers are " +
				"closed. Pods, controllers, nodes and administrators of the cluster go on. It ends when the tenant " +
				"is deleted."),
			"scheduling": m.Optional("Which nodes run the pods of the tenant, whatever the pods say; all that take "+
				"them if neither it nor the template says any. A change counts at once for pods that have no node "+
				"yet; the others stay where they are. As a whole it goes before that of the template.",
				tenantapi.TenantScheduling{}.OpenAPIModelName()),
			"images": apimodels.Set(fmt.Sprintf("The registries whose images pods of the tenant run and mount, in "+
				"full, with or without the beginning of a path (docker.io/library); those of the template if there "+
				"are none, and all if it has none, or for * alone. A new pod, or a new image of one, that names "+
				"another is refused. At most %d.", mostImages)),
			"hosts": apimodels.Set(fmt.Sprintf("The hosts that Ingresses of the tenant may have: a name, "+
				"*.example.com for all names below example.com, or * alone for every host and none; those of the "+
				"template if there are none. A new host of an Ingress that is another is refused, and other tenants "+
				"without such a list do not get these. Without any, the tenant has each name that no other has, by "+
				"who came first, and no wildcard. Those of the system space are kept for it, and it may have others. "+
				"At most %d.", mostHosts)),
			"template": apimodels.Text("The TenantTemplate that the tenant is made from: what it says of limits, " +
				"podSecurity, allow, scheduling, images and hosts holds where the tenant itself says nothing. A new " +
				"tenant without one has the template that is the default, if there is one."),
			"podSecurity": podSecurity(),
			"allow": m.Optional("What pods, claims and Services of the tenant may use beyond what those of all "+
				"tenants may, or of that. Each field goes before that of the template.",
				tenantapi.TenantAllowances{}.OpenAPIModelName()),
			"authentication": m.Optional("The tenant's own provider of OpenID Connect: whoever has a token of it "+
				"is a user of the tenant, and of nothing else. A change counts at once.",
				tenantapi.TenantAuthentication{}.OpenAPIModelName()),
		})
	addAuthentication(m)
	addScheduling(m)
	addAllowances(m)
	m.Add(tenantapi.TenantLimits{}.OpenAPIModelName(), "TenantLimits bound what a tenant can use; "+
		"what is not set is as the cluster has it for all tenants.", nil, map[string]spec.Schema{
		tenantapi.LimitNamespaces:       apimodels.Number("The number of namespaces, the default ones included."),
		tenantapi.LimitObjects:          apimodels.Number("The number of objects of all kinds together."),
		tenantapi.LimitRequestsInFlight: apimodels.Number("The number of requests that are served at a time."),
		tenantapi.LimitWatches:          apimodels.Number("The number of watches that are open at a time."),
		tenantapi.LimitBytes: m.Quantity("What all objects take in the datastore, " +
			"events and leases included."),
		tenantapi.LimitPods: apimodels.Number("The number of pods that have not ended."),
		tenantapi.LimitCPU: m.Quantity("What the pods that have not ended request of processors, " +
			"or are limited to without a request."),
		tenantapi.LimitMemory: m.Quantity("What the pods that have not ended request of memory, " +
			"or are limited to without a request."),
		tenantapi.LimitStorage:     m.Quantity("What all claims of volumes request together."),
		tenantapi.LimitDefinitions: apimodels.Number("The number of definitions of custom resources."),
		tenantapi.LimitDefinitionBytes: m.Quantity("What the definitions of custom resources take in the datastore " +
			"together."),
		tenantapi.LimitAccesses:      apimodels.Number("The number of TenantAccesses that are in the space."),
		tenantapi.LimitLoadBalancers: apimodels.Number("The number of services of type LoadBalancer."),
		tenantapi.LimitServices:      apimodels.Number("The number of services."),
		tenantapi.LimitNodePorts:     apimodels.Number("The number of node ports of all services together."),
		tenantapi.LimitBalancerPorts: apimodels.Number("The number of ports of all services of type LoadBalancer " +
			"together."),
		tenantapi.LimitEventsPerSecond: apimodels.Number("How many events are written in a second, on average."),
		tenantapi.LimitShare: apimodels.Number(fmt.Sprintf("How much of the server's time the tenant has beside the "+
			"shares of others while all ask for more than there is: 1 to 100, %d if nobody says another.",
			tenantapi.DefaultShare)),
		tenantapi.LimitDevices: apimodels.Map("The number of devices that claims ask for, by their DeviceClass.",
			apimodels.Number("")),
		tenantapi.LimitQuota: apimodels.Map("What a ResourceQuota bounds in a namespace, over the whole space, by "+
			"the names that it has there: "+tenantapi.QuotaNames+". At most 64.", m.Quantity("")),
	})
	m.AddKind(apimodels.Kind{
		Name: tenantapi.TenantUsage{}.OpenAPIModelName(),
		Description: "TenantUsage is what the space uses of each of its limits, and what the limit counts. There is " +
			"one in each space. It is counted for whoever reads it, and nobody can write it.",
		List:            tenantapi.TenantUsageList{}.OpenAPIModelName(),
		ListDescription: "TenantUsageList is a list of the one TenantUsage of the space.",
		Items:           "The one of the space.",
		Properties: map[string]spec.Schema{
			"usage": apimodels.Merged("What the space uses of its limits. Limits by name are there as soon as what "+
				"they name is counted.", "name", m.Ref("", tenantapi.LimitUsage{}.OpenAPIModelName())),
		},
	})
	m.Add(tenantapi.LimitUsage{}.OpenAPIModelName(), "LimitUsage is what a tenant uses of one limit.",
		[]string{"name", "used"}, map[string]spec.Schema{
			"name":   apimodels.Text("The name of the limit."),
			"used":   m.Quantity("How much of it is used now."),
			"limit":  m.Quantity("The bound, the tenant's own or that of all tenants; absent if there is none."),
			"counts": apimodels.Text("What counts towards the limit."),
		})
	phase := apimodels.Text("Whether new objects can be made in the space: Active, " +
		"or Terminating while everything in it is deleted.")
	phase.Enum = []any{string(tenantapi.Active), string(tenantapi.Terminating)}
	m.Add(tenantapi.TenantStatus{}.OpenAPIModelName(), "TenantStatus is what the system reports about a tenant.", nil,
		map[string]spec.Schema{
			"phase": phase,
			"conditions": apimodels.Merged("How far the making and the emptying of the space are.", "type",
				m.Ref("", metav1.Condition{}.OpenAPIModelName())),
			"usage": apimodels.Merged("What the tenant uses of its limits, counted for whoever reads it.", "name",
				m.Ref("", tenantapi.LimitUsage{}.OpenAPIModelName())),
			"template": m.Optional("What the space has of spec.template.",
				tenantapi.AppliedTemplate{}.OpenAPIModelName()),
			"effective": m.Optional("What holds of what the Tenant, its annotations and its template say, found out "+
				"for whoever reads it. Watches do not tell of it.", tenantapi.EffectiveSpec{}.OpenAPIModelName()),
		})
	addTemplates(m)
	addAccesses(m)
	return m.Models()
}

func addScheduling(m *apimodels.Builder) {
	m.Add(tenantapi.TenantScheduling{}.OpenAPIModelName(), "TenantScheduling says which nodes run the pods of a "+
		"tenant, whatever the pods say.", nil, map[string]spec.Schema{
		"nodeSelector": apimodels.Map(fmt.Sprintf("The labels that a node has to have to run pods of the tenant, "+
			"besides what the pods ask for. All nodes run them if there are none. At most %d.", mostOfNodes),
			apimodels.Text("")),
		"tolerations": apimodels.List(fmt.Sprintf("The taints that pods of the tenant tolerate. They are given to "+
			"every new pod. At most %d.", mostOfNodes), m.Ref("", corev1.Toleration{}.OpenAPIModelName())),
		"exclusive": apimodels.Bool("Whether the nodes that nodeSelector selects run no pods of other tenants. Pods " +
			"of the system space, DaemonSets among them, go on. A node that two tenants have for themselves alone " +
			"runs pods of neither. Other tenant partitions do not know of it."),
	})
}
