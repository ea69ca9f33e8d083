package kinds

import "sync"

// Class says whose a resource is.
type Class int

const (
	// Tenant resources exist in every space.
	Tenant Class = iota
	// System resources exist in the system space only; tenants get a 403.
	System
	// Shared resources are made in the system space; tenants may read them. Of
	// APIServices they see only some (server/tenancy/storage).
	Shared
)

// String is the name that the documentation uses.
func (c Class) String() string {
	switch c {
	case Tenant:
		return "tenant-scoped"
	case System:
		return "system-only"
	case Shared:
		return "shared read-only"
	default:
		return "unknown"
	}
}

// Kind is one row.
type Kind struct {
	Group, Resource, Kind string
	Namespaced            bool
	Class                 Class
	// Why tells a tenant the reason of a refusal.
	Why string
	// Announced kinds are in the discovery of tenants although they cannot
	// have them, so that clients come to the refusal and show its reason. Lists
	// of them are empty: tools go through all that a cluster has. They are those
	// of the stable APIs, but for nodes, which tenants may have in discovery only
	// when they can read them.
	Announced bool
}

const (
	admission = "admissionregistration.k8s.io"
	authnz    = "authorization.k8s.io"
	certs     = "certificates.k8s.io"
	coord     = "coordination.k8s.io"
	flow      = "flowcontrol.apiserver.k8s.io"
	life      = "lifecycle.k8s.io"
	net       = "networking.k8s.io"
	rbac      = "rbac.authorization.k8s.io"
	resource  = "resource.k8s.io"
	sched     = "scheduling.k8s.io"
	storage   = "storage.k8s.io"
)

// Rows is the whole table, in the order of the documentation.
func Rows() []Kind {
	const ns, cluster = true, false
	return []Kind{
		{"", "bindings", "Binding", ns, System, "only the scheduler of the cluster binds pods to nodes", false},
		{"", "componentstatuses", "ComponentStatus", cluster, System, "the components belong to the cluster", false},
		{"", "configmaps", "ConfigMap", ns, Tenant, "", false},
		{"", "datapartitionconfigs", "DataPartitionConfig", cluster, System,
			"service groups of API servers belong to the cluster", false},
		{"", "endpoints", "Endpoints", ns, Tenant, "", false},
		{"", "events", "Event", ns, Tenant, "", false},
		{"", "limitranges", "LimitRange", ns, Tenant, "", false},
		{"", "namespaces", "Namespace", cluster, Tenant, "", false},
		{"", "nodeallocations", "NodeAllocation", cluster, System, "nodes belong to the cluster", false},
		{"", "nodes", "Node", cluster, System, "nodes belong to the cluster, whose administrators can let a tenant " +
			"read them (spec.nodes: ReadOnly of the Tenant)", false},
		{"", "partitions", "Partition", cluster, System, "the partitions of the cluster are its own", false},
		{"", "persistentvolumeclaims", "PersistentVolumeClaim", ns, Tenant, "", false},
		{"", "persistentvolumes", "PersistentVolume", cluster, Tenant, "", false},
		{"", "pods", "Pod", ns, Tenant, "", false},
		{"", "podtemplates", "PodTemplate", ns, Tenant, "", false},
		{"", "replicationcontrollers", "ReplicationController", ns, Tenant, "", false},
		{"", "resourcequotas", "ResourceQuota", ns, Tenant, "", false},
		{"", "secrets", "Secret", ns, Tenant, "", false},
		{"", "serviceaccounts", "ServiceAccount", ns, Tenant, "", false},
		{"", "services", "Service", ns, Tenant, "", false},
		{"", "tenantaccesses", "TenantAccess", cluster, Tenant, "", false},
		{"", "tenantplacements", "TenantPlacement", cluster, System,
			"where tenants live is decided by the administrators of the cluster", false},
		{"", "tenants", "Tenant", cluster, System, "tenants are made by the administrators of the cluster", false},
		{"", "tenantusages", "TenantUsage", cluster, Tenant, "", false},
		{"", "tenanttemplates", "TenantTemplate", cluster, System,
			"tenants are made by the administrators of the cluster", false},
		{admission, "mutatingadmissionpolicies", "MutatingAdmissionPolicy", cluster, Tenant, "", false},
		{admission, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", cluster, Tenant, "", false},
		{admission, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", cluster, Tenant, "", false},
		{admission, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", cluster, Tenant, "", false},
		{admission, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding",
			cluster, Tenant, "", false},
		{admission, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", cluster, Tenant, "", false},
		{"apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", cluster, Tenant, "", false},
		{"apiregistration.k8s.io", "apiservices", "APIService", cluster, Shared, "", false},
		{"apps", "controllerrevisions", "ControllerRevision", ns, Tenant, "", false},
		{"apps", "daemonsets", "DaemonSet", ns, System,
			"a DaemonSet runs on every node, and nodes belong to the cluster; use a Deployment", true},
		{"apps", "deployments", "Deployment", ns, Tenant, "", false},
		{"apps", "replicasets", "ReplicaSet", ns, Tenant, "", false},
		{"apps", "statefulsets", "StatefulSet", ns, Tenant, "", false},
		{"authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", cluster, Tenant, "", false},
		{"authentication.k8s.io", "tokenreviews", "TokenReview", cluster, Tenant, "", false},
		{authnz, "localsubjectaccessreviews", "LocalSubjectAccessReview", ns, Tenant, "", false},
		{authnz, "selfsubjectaccessreviews", "SelfSubjectAccessReview", cluster, Tenant, "", false},
		{authnz, "selfsubjectrulesreviews", "SelfSubjectRulesReview", cluster, Tenant, "", false},
		{authnz, "subjectaccessreviews", "SubjectAccessReview", cluster, Tenant, "", false},
		{"autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler", ns, Tenant, "", false},
		{"batch", "cronjobs", "CronJob", ns, Tenant, "", false},
		{"batch", "jobs", "Job", ns, Tenant, "", false},
		{certs, "certificatesigningrequests", "CertificateSigningRequest", cluster, System,
			"certificates are signed by the authority of the cluster", true},
		{certs, "clustertrustbundles", "ClusterTrustBundle", cluster, Shared, "", false},
		{certs, "podcertificaterequests", "PodCertificateRequest", ns, System,
			"certificates are signed by the authority of the cluster", false},
		{coord, "leases", "Lease", ns, Tenant, "", false},
		{coord, "leasecandidates", "LeaseCandidate", ns, Tenant, "", false},
		{"discovery.k8s.io", "endpointslices", "EndpointSlice", ns, Tenant, "", false},
		{"events.k8s.io", "events", "Event", ns, Tenant, "", false},
		{flow, "flowschemas", "FlowSchema", cluster, System, "the fairness of the API belongs to the cluster", true},
		{flow, "prioritylevelconfigurations", "PriorityLevelConfiguration", cluster, System,
			"the fairness of the API belongs to the cluster", true},
		{"internal.apiserver.k8s.io", "storageversions", "StorageVersion", cluster, System,
			"the API servers belong to the cluster", false},
		{"metrics.k8s.io", "nodes", "NodeMetrics", cluster, System, "nodes belong to the cluster", false},
		{"metrics.k8s.io", "pods", "PodMetrics", ns, Tenant, "", false},
		{life, "evictionrequests", "EvictionRequest", ns, System,
			"pods are drained from nodes by it, and nodes belong to the cluster", false},
		{life, "evictions", "Eviction", ns, System,
			"pods are drained from nodes by it, and nodes belong to the cluster", false},
		{net, "ingressclasses", "IngressClass", cluster, Shared, "", false},
		{net, "ingresses", "Ingress", ns, Tenant, "", false},
		{net, "ipaddresses", "IPAddress", cluster, System, "addresses are given out by the cluster", true},
		{net, "networkpolicies", "NetworkPolicy", ns, Tenant, "", false},
		{net, "servicecidrs", "ServiceCIDR", cluster, System, "addresses are given out by the cluster", true},
		{"node.k8s.io", "runtimeclasses", "RuntimeClass", cluster, Shared, "", false},
		{"policy", "poddisruptionbudgets", "PodDisruptionBudget", ns, Tenant, "", false},
		{rbac, "clusterrolebindings", "ClusterRoleBinding", cluster, Tenant, "", false},
		{rbac, "clusterroles", "ClusterRole", cluster, Tenant, "", false},
		{rbac, "rolebindings", "RoleBinding", ns, Tenant, "", false},
		{rbac, "roles", "Role", ns, Tenant, "", false},
		{resource, "deviceclasses", "DeviceClass", cluster, Shared, "", false},
		{resource, "devicetaintrules", "DeviceTaintRule", cluster, System,
			"devices belong to the nodes of the cluster", false},
		{resource, "resourceclaims", "ResourceClaim", ns, Tenant, "", false},
		{resource, "resourceclaimtemplates", "ResourceClaimTemplate", ns, Tenant, "", false},
		{resource, "resourcepoolstatusrequests", "ResourcePoolStatusRequest", cluster, System,
			"devices belong to the nodes of the cluster", false},
		{resource, "resourceslices", "ResourceSlice", cluster, System,
			"devices belong to the nodes of the cluster", true},
		{sched, "compositepodgroups", "CompositePodGroup", ns, Tenant, "", false},
		{sched, "podgroups", "PodGroup", ns, Tenant, "", false},
		{sched, "priorityclasses", "PriorityClass", cluster, Shared, "", false},
		{sched, "workloads", "Workload", ns, Tenant, "", false},
		{storage, "csidrivers", "CSIDriver", cluster, Shared, "", false},
		{storage, "csinodes", "CSINode", cluster, System, "nodes belong to the cluster", true},
		{storage, "csistoragecapacities", "CSIStorageCapacity", ns, System,
			"storage drivers belong to the cluster", true},
		{storage, "storageclasses", "StorageClass", cluster, Shared, "", false},
		{storage, "volumeattachments", "VolumeAttachment", cluster, System,
			"volumes are attached to nodes by the cluster", true},
		{storage, "volumeattributesclasses", "VolumeAttributesClass", cluster, Shared, "", false},
		{"storagemigration.k8s.io", "storageversionmigrations", "StorageVersionMigration", cluster, System,
			"the store belongs to the cluster", false},
	}
}

// Table answers questions about the rows.
type Table struct {
	byResource, byKind map[[2]string]Kind
}

// New is the table of the rows. Nothing changes it, so there is only one.
func New() *Table { return indexed() }

var indexed = sync.OnceValue(index)

func index() *Table {
	t := &Table{byResource: map[[2]string]Kind{}, byKind: map[[2]string]Kind{}}
	for _, k := range Rows() {
		t.byResource[[2]string{k.Group, k.Resource}] = k
		t.byKind[[2]string{k.Group, k.Kind}] = k
	}
	return t
}

// Groups are those that the table has, built into the API.
func Groups() map[string]bool {
	groups := map[string]bool{}
	for _, k := range Rows() {
		groups[k.Group] = true
	}
	return groups
}

// Resource finds a row by group and plural name. What is not found is a custom
// resource or does not exist.
func (t *Table) Resource(group, resource string) (Kind, bool) {
	k, ok := t.byResource[[2]string{group, resource}]
	return k, ok
}

// Kind finds a row by group and kind.
func (t *Table) Kind(group, kind string) (Kind, bool) {
	k, ok := t.byKind[[2]string{group, kind}]
	return k, ok
}

// GroupOf finds the group of a kind by its name alone, the first one by name.
func (t *Table) GroupOf(kind string) (string, bool) {
	var first string
	found := false
	for k := range t.byKind {
		if k[1] == kind && (!found || k[0] < first) {
			first, found = k[0], true
		}
	}
	return first, found
}

// IsReview tells the groups whose resources are questions, not objects.
func IsReview(group string) bool { return group == "authentication.k8s.io" || group == authnz }

// SharedClusterRole reports whether name is a ClusterRole of the system space
// that every tenant uses. The names are reserved: no tenant can have a
// ClusterRole of their own under one of them.
func SharedClusterRole(name string) bool {
	switch name {
	case "cluster-admin", "admin", "edit", "view":
		return true
	}
	return len(name) > len(systemPrefix) && name[:len(systemPrefix)] == systemPrefix
}

const systemPrefix = "system:"

// APIObject is what the Service by which pods find the API is called in the
// namespace default of every space, and so are its Endpoints and its
// EndpointSlice. They are the system's, and shown everywhere.
const APIObject = "kubernetes"

// OfAPI tells the resources that have such an object.
func OfAPI(group, resource string) bool {
	switch resource {
	case "services", "endpoints":
		return group == ""
	case "endpointslices":
		return group == "discovery.k8s.io"
	}
	return false
}

// Shows reports whether tenants find anything of a group in discovery.
func Shows(group string) bool { return shownGroups()[group] }

var shownGroups = sync.OnceValue(func() map[string]bool {
	groups := map[string]bool{}
	for _, k := range Rows() {
		groups[k.Group] = groups[k.Group] || k.Class != System || k.Announced
	}
	return groups
})
