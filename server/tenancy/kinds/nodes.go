package kinds

// Nodes are the one kind of the system that a tenant can be let read: see
// spec.nodes of the Tenant.

// IsNodes tells the resource.
func IsNodes(group, resource string) bool { return group == "" && resource == "nodes" }

// NodeField is a field of a Node.
type NodeField struct {
	Path string
	// Hidden is why tenants that read nodes do not see it, "" if they do.
	Hidden string
}

// NodeFields is the table of all fields. What is not in it is not shown.
func NodeFields() []NodeField {
	const (
		address  = "it says where machines are reached"
		notes    = "components and administrators of the cluster note on it what they like"
		machine  = "it tells machines apart, wherever they are"
		others   = "it tells what others run"
		nobody   = "only the parts of the cluster use it"
		nowadays = "nothing sets it any more"
	)
	return []NodeField{
		{"metadata.name", ""},
		{"metadata.generateName", nobody},
		{"metadata.namespace", nobody},
		{"metadata.selfLink", nowadays},
		{"metadata.uid", ""},
		{"metadata.resourceVersion", ""},
		{"metadata.generation", nobody},
		{"metadata.creationTimestamp", ""},
		{"metadata.deletionTimestamp", ""},
		{"metadata.deletionGracePeriodSeconds", nobody},
		{"metadata.labels", ""},
		{"metadata.annotations", notes},
		{"metadata.ownerReferences", notes},
		{"metadata.finalizers", notes},
		{"metadata.managedFields", notes},
		{"spec.podCIDR", address},
		{"spec.podCIDRs", address},
		{"spec.providerID", machine},
		{"spec.unschedulable", ""},
		{"spec.taints", ""},
		{"spec.configSource", nobody},
		{"spec.podPreemptionPolicy", nobody},
		{"spec.externalID", machine},
		{"status.capacity", ""},
		{"status.allocatable", ""},
		{"status.phase", nowadays},
		{"status.conditions.type", ""},
		{"status.conditions.status", ""},
		{"status.conditions.lastHeartbeatTime", ""},
		{"status.conditions.lastTransitionTime", ""},
		{"status.conditions.reason", ""},
		{"status.conditions.message", notes},
		{"status.addresses", address},
		{"status.daemonEndpoints", address},
		{"status.nodeInfo.machineID", machine},
		{"status.nodeInfo.systemUUID", machine},
		{"status.nodeInfo.bootID", machine},
		{"status.nodeInfo.kernelVersion", ""},
		{"status.nodeInfo.osImage", ""},
		{"status.nodeInfo.containerRuntimeVersion", ""},
		{"status.nodeInfo.kubeletVersion", ""},
		{"status.nodeInfo.kubeProxyVersion", nowadays},
		{"status.nodeInfo.operatingSystem", ""},
		{"status.nodeInfo.architecture", ""},
		{"status.nodeInfo.swap", nobody},
		{"status.nodeInfo.runningInUserNamespace", nobody},
		{"status.images", others},
		{"status.volumesInUse", others},
		{"status.volumesAttached", others},
		{"status.config", nobody},
		{"status.runtimeHandlers", nobody},
		{"status.features", nobody},
		{"status.declaredFeatures", nobody},
	}
}
