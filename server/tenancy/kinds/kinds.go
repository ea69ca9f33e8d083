package kinds

// Class says whose a resource is.
type Class int

const (
	// Tenant resources exist in every space.
	Tenant Class = iota
	// System resources exist in the system space only; tenants get a 403.
	System
	// Shared resources are made in the system space; tenants may read them.
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
}

const (
	admission = "admissionregistration.k8s.io"
	authnz    = "authorization.k8s.io"
	certs     = "certificates.k8s.io"
	coord     = "coordination.k8s.io"
	flow      = "flowcontrol.apiserver.k8s.io"
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
		{"", "bindings", "Binding", ns, System, "only the scheduler of the cluster binds pods to nodes"},
		{"", "componentstatuses", "ComponentStatus", cluster, System, "the components belong to the cluster"},
		{"", "configmaps", "ConfigMap", ns, Tenant, ""},
		{"", "endpoints", "Endpoints", ns, Tenant, ""},
		{"", "events", "Event", ns, Tenant, ""},
		{"", "limitranges", "LimitRange", ns, Tenant, ""},
		{"", "namespaces", "Namespace", cluster, Tenant, ""},
		{"", "nodes", "Node", cluster, System, "nodes belong to the cluster"},
		{"", "persistentvolumeclaims", "PersistentVolumeClaim", ns, Tenant, ""},
		{"", "persistentvolumes", "PersistentVolume", cluster, Tenant, ""},
		{"", "pods", "Pod", ns, Tenant, ""},
		{"", "podtemplates", "PodTemplate", ns, Tenant, ""},
		{"", "replicationcontrollers", "ReplicationController", ns, Tenant, ""},
		{"", "resourcequotas", "ResourceQuota", ns, Tenant, ""},
		{"", "secrets", "Secret", ns, Tenant, ""},
		{"", "serviceaccounts", "ServiceAccount", ns, Tenant, ""},
		{"", "services", "Service", ns, Tenant, ""},
		{"", "tenants", "Tenant", cluster, System, "tenants are made by the administrators of the cluster"},
		{admission, "mutatingadmissionpolicies", "MutatingAdmissionPolicy", cluster, Tenant, ""},
		{admission, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", cluster, Tenant, ""},
		{admission, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", cluster, Tenant, ""},
		{admission, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", cluster, Tenant, ""},
		{admission, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", cluster, Tenant, ""},
		{admission, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", cluster, Tenant, ""},
		{"apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", cluster, System, "definitions of custom resources are made by the administrators of the cluster"},
		{"apiregistration.k8s.io", "apiservices", "APIService", cluster, System, "API servers are added by the administrators of the cluster"},
		{"apps", "controllerrevisions", "ControllerRevision", ns, Tenant, ""},
		{"apps", "daemonsets", "DaemonSet", ns, System, "a DaemonSet runs on every node, and nodes belong to the cluster; use a Deployment"},
		{"apps", "deployments", "Deployment", ns, Tenant, ""},
		{"apps", "replicasets", "ReplicaSet", ns, Tenant, ""},
		{"apps", "statefulsets", "StatefulSet", ns, Tenant, ""},
		{"authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", cluster, Tenant, ""},
		{"authentication.k8s.io", "tokenreviews", "TokenReview", cluster, Tenant, ""},
		{authnz, "localsubjectaccessreviews", "LocalSubjectAccessReview", ns, Tenant, ""},
		{authnz, "selfsubjectaccessreviews", "SelfSubjectAccessReview", cluster, Tenant, ""},
		{authnz, "selfsubjectrulesreviews", "SelfSubjectRulesReview", cluster, Tenant, ""},
		{authnz, "subjectaccessreviews", "SubjectAccessReview", cluster, Tenant, ""},
		{"autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler", ns, Tenant, ""},
		{"batch", "cronjobs", "CronJob", ns, Tenant, ""},
		{"batch", "jobs", "Job", ns, Tenant, ""},
		{certs, "certificatesigningrequests", "CertificateSigningRequest", cluster, System, "certificates are signed by the authority of the cluster"},
		{certs, "clustertrustbundles", "ClusterTrustBundle", cluster, Shared, ""},
		{certs, "podcertificaterequests", "PodCertificateRequest", ns, System, "certificates are signed by the authority of the cluster"},
		{coord, "leases", "Lease", ns, Tenant, ""},
		{coord, "leasecandidates", "LeaseCandidate", ns, Tenant, ""},
		{"discovery.k8s.io", "endpointslices", "EndpointSlice", ns, Tenant, ""},
		{"events.k8s.io", "events", "Event", ns, Tenant, ""},
		{flow, "flowschemas", "FlowSchema", cluster, System, "the fairness of the API belongs to the cluster"},
		{flow, "prioritylevelconfigurations", "PriorityLevelConfiguration", cluster, System, "the fairness of the API belongs to the cluster"},
		{"internal.apiserver.k8s.io", "storageversions", "StorageVersion", cluster, System, "the API servers belong to the cluster"},
		{net, "ingressclasses", "IngressClass", cluster, Shared, ""},
		{net, "ingresses", "Ingress", ns, Tenant, ""},
		{net, "ipaddresses", "IPAddress", cluster, System, "addresses are given out by the cluster"},
		{net, "networkpolicies", "NetworkPolicy", ns, Tenant, ""},
		{net, "servicecidrs", "ServiceCIDR", cluster, System, "addresses are given out by the cluster"},
		{"node.k8s.io", "runtimeclasses", "RuntimeClass", cluster, Shared, ""},
		{"policy", "poddisruptionbudgets", "PodDisruptionBudget", ns, Tenant, ""},
		{rbac, "clusterrolebindings", "ClusterRoleBinding", cluster, Tenant, ""},
		{rbac, "clusterroles", "ClusterRole", cluster, Tenant, ""},
		{rbac, "rolebindings", "RoleBinding", ns, Tenant, ""},
		{rbac, "roles", "Role", ns, Tenant, ""},
		{resource, "deviceclasses", "DeviceClass", cluster, Shared, ""},
		{resource, "devicetaintrules", "DeviceTaintRule", cluster, System, "devices belong to the nodes of the cluster"},
		{resource, "resourceclaims", "ResourceClaim", ns, Tenant, ""},
		{resource, "resourceclaimtemplates", "ResourceClaimTemplate", ns, Tenant, ""},
		{resource, "resourcepoolstatusrequests", "ResourcePoolStatusRequest", cluster, System, "devices belong to the nodes of the cluster"},
		{resource, "resourceslices", "ResourceSlice", cluster, System, "devices belong to the nodes of the cluster"},
		{sched, "podgroups", "PodGroup", ns, Tenant, ""},
		{sched, "priorityclasses", "PriorityClass", cluster, Shared, ""},
		{sched, "workloads", "Workload", ns, Tenant, ""},
		{storage, "csidrivers", "CSIDriver", cluster, Shared, ""},
		{storage, "csinodes", "CSINode", cluster, System, "nodes belong to the cluster"},
		{storage, "csistoragecapacities", "CSIStorageCapacity", ns, System, "storage drivers belong to the cluster"},
		{storage, "storageclasses", "StorageClass", cluster, Shared, ""},
		{storage, "volumeattachments", "VolumeAttachment", cluster, System, "volumes are attached to nodes by the cluster"},
		{storage, "volumeattributesclasses", "VolumeAttributesClass", cluster, Shared, ""},
		{"storagemigration.k8s.io", "storageversionmigrations", "StorageVersionMigration", cluster, System, "the store belongs to the cluster"},
	}
}

// Table answers questions about the rows.
type Table struct {
	byResource, byKind map[[2]string]Kind
}

// New indexes the rows.
func New() *Table {
	t := &Table{byResource: map[[2]string]Kind{}, byKind: map[[2]string]Kind{}}
	for _, k := range Rows() {
		t.byResource[[2]string{k.Group, k.Resource}] = k
		t.byKind[[2]string{k.Group, k.Kind}] = k
	}
	return t
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

// SharedClusterRole tells whether name is a ClusterRole of the system space
// that every tenant uses. The names are reserved: no tenant can have a
// ClusterRole of his own under one of them.
func SharedClusterRole(name string) bool {
	switch name {
	case "cluster-admin", "admin", "edit", "view":
		return true
	}
	return len(name) > len(systemPrefix) && name[:len(systemPrefix)] == systemPrefix
}

const systemPrefix = "system:"
