package registry

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// Definitions are the models of the Tenant API in OpenAPI documents. Types of
// fields for server-side apply are derived from them too.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	m := models{ref: ref, out: map[string]common.OpenAPIDefinition{}}
	apiVersion := text("The version of the schema of this object, v1.")
	kind := text("The kind of this object.")

	m.add(tenantapi.Tenant{}.OpenAPIModelName(), "Tenant owns a space: namespaces and cluster-scoped objects that "+
		"nobody but its users and the administrators of the cluster can see.", nil, map[string]spec.Schema{
		"apiVersion": apiVersion,
		"kind":       kind,
		"metadata": m.model("Standard object metadata. The name is a DNS label of at most 24 characters.",
			metav1.ObjectMeta{}.OpenAPIModelName()),
		"spec": m.model("What administrators decide about the tenant.",
			tenantapi.TenantSpec{}.OpenAPIModelName()),
		"status": m.model("What the system reports about the tenant.",
			tenantapi.TenantStatus{}.OpenAPIModelName()),
	})
	m.add(tenantapi.TenantList{}.OpenAPIModelName(), "TenantList is a list of tenants.", []string{"items"},
		map[string]spec.Schema{
			"apiVersion": apiVersion,
			"kind":       kind,
			"metadata":   m.model("Standard list metadata.", metav1.ListMeta{}.OpenAPIModelName()),
			"items":      list("The tenants.", m.model("", tenantapi.Tenant{}.OpenAPIModelName())),
		})
	limits := m.model("Bounds of what the tenant can use; what is not set is as the cluster has it for all tenants.",
		tenantapi.TenantLimits{}.OpenAPIModelName())
	limits.Default = nil // absent, not empty
	policies := tenantapi.CRDPolicies()
	policy := text(fmt.Sprintf("Which definition serves a custom resource that both the tenant and the system space "+
		"define. %s if not set.", policies[0]))
	for _, p := range policies {
		policy.Enum = append(policy.Enum, string(p))
	}
	nodes := text(fmt.Sprintf("What users of the tenant may do with the nodes of the cluster, if its roles let "+
		"them: %s is to get, list and watch them, without addresses, annotations and images. Nothing if not set.",
		tenantapi.NodesReadOnly))
	nodes.Enum = []any{string(tenantapi.NodesReadOnly)}
	m.add(tenantapi.TenantSpec{}.OpenAPIModelName(), "TenantSpec is what administrators decide about a tenant.", nil,
		map[string]spec.Schema{
			"limits":    limits,
			"crdPolicy": policy,
			"nodes":     nodes,
		})
	m.add(tenantapi.TenantLimits{}.OpenAPIModelName(), "TenantLimits bound what a tenant can use; "+
		"what is not set is as the cluster has it for all tenants.", nil, map[string]spec.Schema{
		tenantapi.LimitNamespaces:       number("The number of namespaces, the default ones included."),
		tenantapi.LimitObjects:          number("The number of objects of all kinds together."),
		tenantapi.LimitRequestsInFlight: number("The number of requests that are served at a time."),
		tenantapi.LimitBytes: m.quantity("What all objects take in the datastore, " +
			"events and leases included."),
		tenantapi.LimitPods: number("The number of pods that have not ended."),
		tenantapi.LimitCPU: m.quantity("What the pods that have not ended request of processors, " +
			"or are limited to without a request."),
		tenantapi.LimitMemory: m.quantity("What the pods that have not ended request of memory, " +
			"or are limited to without a request."),
		tenantapi.LimitStorage:         m.quantity("What all claims of volumes request together."),
		tenantapi.LimitDefinitions:     number("The number of definitions of custom resources."),
		tenantapi.LimitLoadBalancers:   number("The number of services of type LoadBalancer."),
		tenantapi.LimitEventsPerSecond: number("How many events are written in a second, on average."),
	})
	m.add(tenantapi.LimitUsage{}.OpenAPIModelName(), "LimitUsage is what a tenant uses of one limit.",
		[]string{"name", "used"}, map[string]spec.Schema{
			"name":  text("The name of the limit."),
			"used":  m.quantity("How much of it is used now."),
			"limit": m.quantity("The bound, the tenant's own or that of all tenants; absent if there is none."),
		})
	phase := text("Whether new objects can be made in the space: Active, " +
		"or Terminating while everything in it is deleted.")
	phase.Enum = []any{string(tenantapi.Active), string(tenantapi.Terminating)}
	conditions := list("How far the making and the emptying of the space are.",
		m.model("", metav1.Condition{}.OpenAPIModelName()))
	conditions.Extensions = spec.Extensions{
		"x-kubernetes-list-type":       "map",
		"x-kubernetes-list-map-keys":   []any{"type"},
		"x-kubernetes-patch-merge-key": "type",
		"x-kubernetes-patch-strategy":  "merge",
	}
	usage := list("What the tenant uses of its limits, counted for whoever reads it.",
		m.model("", tenantapi.LimitUsage{}.OpenAPIModelName()))
	usage.Extensions = spec.Extensions{
		"x-kubernetes-list-type":       "map",
		"x-kubernetes-list-map-keys":   []any{"name"},
		"x-kubernetes-patch-merge-key": "name",
		"x-kubernetes-patch-strategy":  "merge",
	}
	m.add(tenantapi.TenantStatus{}.OpenAPIModelName(), "TenantStatus is what the system reports about a tenant.", nil,
		map[string]spec.Schema{
			"phase":      phase,
			"conditions": conditions,
			"usage":      usage,
		})
	return m.out
}

type models struct {
	ref common.ReferenceCallback
	out map[string]common.OpenAPIDefinition
	// refs are the models that the next added one depends on.
	refs []string
}

func (m *models) add(name, description string, required []string, properties map[string]spec.Schema) {
	m.out[name] = common.OpenAPIDefinition{
		Schema: spec.Schema{SchemaProps: spec.SchemaProps{
			Description: description,
			Type:        []string{"object"},
			Required:    required,
			Properties:  properties,
		}},
		Dependencies: m.refs,
	}
	m.refs = nil
}

func (m *models) model(description, name string) spec.Schema {
	m.refs = append(m.refs, name)
	return spec.Schema{SchemaProps: spec.SchemaProps{Description: description,
		Default: map[string]any{}, Ref: m.ref(name)}}
}

// quantity has no default: absent is not 0.
func (m *models) quantity(description string) spec.Schema {
	s := m.model(description, resource.Quantity{}.OpenAPIModelName())
	s.Default = nil
	return s
}

func text(description string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Description: description, Type: []string{"string"}}}
}

func number(description string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Description: description,
		Type: []string{"integer"}, Format: "int64"}}
}

func list(description string, of spec.Schema) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{
		Description: description,
		Type:        []string{"array"},
		Items:       &spec.SchemaOrArray{Schema: &of},
	}}
}
