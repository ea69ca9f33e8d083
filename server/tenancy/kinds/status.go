package kinds

import "strings"

// StatusField is a field of a status that the cluster believes in parts: of a
// pod or of a Service.
type StatusField struct {
	Kind, Field string
	// Why tells who relies on the field and so why tenants do not write it; it
	// is "" for what tenants write.
	Why string
}

// StatusFields is the table of these fields. What is not in it is not the
// tenants' to write.
func StatusFields() []StatusField {
	const (
		network    = "the API server and the network of all tenants go by this address"
		accounting = "what a tenant uses of its limits and of the nodes is counted by it"
		kubelet    = "the node of the pod says it, and goes by it when it starts again"
		scheduler  = "the scheduler keeps room by it"
	)
	return []StatusField{
		{"Pod", "observedGeneration", kubelet},
		{"Pod", "phase", "a pod that has ended counts for no limit, and its address is given to another"},
		{"Pod", "conditions", ""},
		{"Pod", "message", ""},
		{"Pod", "reason", ""},
		{"Pod", "nominatedNodeName", scheduler},
		{"Pod", "hostIP", network},
		{"Pod", "hostIPs", network},
		{"Pod", "podIP", network},
		{"Pod", "podIPs", network},
		{"Pod", "startTime", "controllers of the cluster reckon deadlines and preemption by it"},
		{"Pod", "initContainerStatuses", accounting},
		{"Pod", "containerStatuses", accounting},
		{"Pod", "qosClass", kubelet},
		{"Pod", "ephemeralContainerStatuses", kubelet},
		{"Pod", "resize", accounting},
		{"Pod", "resourceClaimStatuses", "the devices of nodes are given out by it"},
		{"Pod", "extendedResourceClaimStatus", "the devices of nodes are given out by it"},
		{"Pod", "allocatedResources", accounting},
		{"Pod", "resources", accounting},
		{"Pod", "nodeAllocatableResourceClaimStatuses", accounting},
		{"Pod", "volumeHealth", kubelet},
		{"Service", "loadBalancer", "every node sends what goes to these addresses to this Service, whoever sends it"},
		{"Service", "conditions", ""},
	}
}

// TenantsPodCondition reports whether a condition of a pod is the tenant's to
// write. Those that upstream knows and is to know without a domain, such as the
// ones of a resize, which quotas are reckoned by, are not; what only says
// whether the tenant's own pod is ready is, and so is a condition of anybody's
// own, as readiness gates have them.
func TenantsPodCondition(condition string) bool {
	switch condition {
	case "Ready", "ContainersReady", "Initialized":
		return true
	}
	return strings.Contains(condition, "/")
}
