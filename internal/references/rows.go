package references

// Rows is the reference table: what of which kind names something else. What
// is not here holds no name that differs between the native and the composite
// form, see Reviewed.
func Rows() []Row {
	var rows []Row
	add := func(group string, kinds []string, op Op, paths ...string) {
		for _, kind := range kinds {
			for _, path := range paths {
				rows = append(rows, Row{Group: group, Kind: kind, Path: path, Op: op})
			}
		}
	}
	one := func(kind string) []string { return []string{kind} }

	// Pod specs, wherever they are.
	for _, at := range podSpecs() {
		for _, f := range podSpec() {
			rows = append(rows, Row{Group: at.Group, Kind: at.Kind, Path: at.Path + "." + f.Path, Op: f.Op})
		}
	}

	add("", one("Namespace"), NamespaceLabels, "metadata.labels")
	add("", one("Namespace"), Text, "status.conditions.message")
	add("", one("Pod"), Text, "status.message", "status.conditions.message",
		"status.volumeHealth.healthConditions.message")
	add("", one("Pod"), Text, containerTexts()...)
	add("", one("ReplicationController"), Text, "status.conditions.message")
	add("", one("Service"), Text, "status.conditions.message")
	add("", one("ServiceAccount"), Ref, "secrets")
	add("", one("Endpoints"), Ref, "subsets.addresses.targetRef", "subsets.notReadyAddresses.targetRef")
	add("", one("Event"), Ref, "involvedObject", "related")
	add("", one("Event"), Text, "message")
	add("events.k8s.io", one("Event"), Ref, "regarding", "related")
	add("events.k8s.io", one("Event"), Text, "note")
	add("", one("Binding"), Ref, "target")
	add("", one("PersistentVolumeClaim"), ClusterName, "spec.volumeName")
	add("", one("PersistentVolumeClaim"), Ref, "spec.dataSource", "spec.dataSourceRef")
	add("", one("PersistentVolumeClaim"), Text, "status.conditions.message",
		"status.healthStatus.healthConditions.message")
	add("", one("PersistentVolume"), Ref, "spec.claimRef")
	add("", one("PersistentVolume"), Text, "status.message")
	add("", one("PersistentVolume"), Namespace, "spec.azureFile.secretNamespace",
		"spec.cephfs.secretRef.namespace", "spec.cinder.secretRef.namespace", "spec.flexVolume.secretRef.namespace",
		"spec.iscsi.secretRef.namespace", "spec.rbd.secretRef.namespace", "spec.scaleIO.secretRef.namespace",
		"spec.storageos.secretRef.namespace", "spec.glusterfs.endpointsNamespace",
		"spec.csi.controllerPublishSecretRef.namespace", "spec.csi.controllerExpandSecretRef.namespace",
		"spec.csi.nodeStageSecretRef.namespace", "spec.csi.nodePublishSecretRef.namespace",
		"spec.csi.nodeExpandSecretRef.namespace")

	add("admissionregistration.k8s.io", []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"},
		Namespace, "webhooks.clientConfig.service.namespace")
	add("admissionregistration.k8s.io", []string{"ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding"},
		Namespace, "spec.paramRef.namespace")
	add("admissionregistration.k8s.io", []string{"ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding"},
		ClusterName, "spec.policyName")
	add("admissionregistration.k8s.io", one("ValidatingAdmissionPolicy"), Text, "status.conditions.message")

	add("apiextensions.k8s.io", one("CustomResourceDefinition"), Namespace,
		"spec.conversion.webhook.clientConfig.service.namespace")
	add("apiextensions.k8s.io", one("CustomResourceDefinition"), Text, "status.conditions.message")

	add("apps", []string{"Deployment", "ReplicaSet", "StatefulSet"}, Text, "status.conditions.message")
	add("apps", one("StatefulSet"), ClusterName, "spec.volumeClaimTemplates.spec.volumeName")
	// Unlike those of other templates, these owners become owners of claims.
	add("apps", one("StatefulSet"), Ref, "spec.volumeClaimTemplates.metadata.ownerReferences",
		"spec.volumeClaimTemplates.spec.dataSource", "spec.volumeClaimTemplates.spec.dataSourceRef")

	add("authentication.k8s.io", []string{"TokenReview"}, User, "status.user.username")
	add("authentication.k8s.io", []string{"TokenReview"}, Group, "status.user.groups")
	add("authentication.k8s.io", []string{"TokenReview"}, Extra, "status.user.extra")
	add("authentication.k8s.io", []string{"TokenReview"}, Text, "status.error")
	add("authentication.k8s.io", []string{"SelfSubjectReview"}, User, "status.userInfo.username")
	add("authentication.k8s.io", []string{"SelfSubjectReview"}, Group, "status.userInfo.groups")
	add("authentication.k8s.io", []string{"SelfSubjectReview"}, Extra, "status.userInfo.extra")

	const authz = "authorization.k8s.io"
	reviews := []string{"SubjectAccessReview", "LocalSubjectAccessReview"}
	add(authz, reviews, User, "spec.user")
	add(authz, reviews, Group, "spec.groups", "spec.group")
	add(authz, reviews, Extra, "spec.extra")
	add(authz, append(reviews, "SelfSubjectAccessReview"), Namespace, "spec.resourceAttributes.namespace")
	add(authz, append(reviews, "SelfSubjectAccessReview"), Text, "status.reason", "status.evaluationError")
	add(authz, one("SelfSubjectRulesReview"), Namespace, "spec.namespace")
	add(authz, one("SelfSubjectRulesReview"), Text, "status.evaluationError")

	add("autoscaling", one("HorizontalPodAutoscaler"), Ref, "spec.scaleTargetRef",
		"spec.metrics.object.describedObject", "status.currentMetrics.object.describedObject")
	add("autoscaling", one("HorizontalPodAutoscaler"), Text, "status.conditions.message")
	// v1 has no conditions and shows them there.
	add("autoscaling", one("HorizontalPodAutoscaler"), Text,
		"metadata.annotations[autoscaling.alpha.kubernetes.io/conditions]")
	add("batch", one("Job"), Text, "status.conditions.message")
	add("batch", one("CronJob"), Ref, "status.active")
	add("discovery.k8s.io", one("EndpointSlice"), Ref, "endpoints.targetRef")
	add("networking.k8s.io", one("Ingress"), Ref, "spec.defaultBackend.resource",
		"spec.rules.http.paths.backend.resource")
	add("networking.k8s.io", one("NetworkPolicy"), NamespaceSelector, "spec.ingress.from.namespaceSelector",
		"spec.egress.to.namespaceSelector")
	add("policy", one("PodDisruptionBudget"), Text, "status.conditions.message")

	const rbac = "rbac.authorization.k8s.io"
	add(rbac, []string{"RoleBinding", "ClusterRoleBinding"}, Ref, "roleRef")
	add(rbac, []string{"RoleBinding", "ClusterRoleBinding"}, Subject, "subjects")
	// Roles are selected over all spaces, as namespaces are.
	add(rbac, one("ClusterRole"), NamespaceSelector, "aggregationRule.clusterRoleSelectors")

	add("resource.k8s.io", one("ResourceClaim"), Text, "status.devices.conditions.message")
	add("scheduling.k8s.io", one("Workload"), Ref, "spec.controllerRef")
	add("scheduling.k8s.io", []string{"PodGroup", "CompositePodGroup"}, Text, "status.conditions.message")
	return rows
}

// podSpecs are the places of pod specs in kinds.
func podSpecs() []Row {
	return []Row{
		{Group: "", Kind: "Pod", Path: "spec"},
		{Group: "", Kind: "PodTemplate", Path: "template.spec"},
		{Group: "", Kind: "ReplicationController", Path: "spec.template.spec"},
		{Group: "apps", Kind: "Deployment", Path: "spec.template.spec"},
		{Group: "apps", Kind: "ReplicaSet", Path: "spec.template.spec"},
		{Group: "apps", Kind: "StatefulSet", Path: "spec.template.spec"},
		{Group: "apps", Kind: "DaemonSet", Path: "spec.template.spec"},
		// What a revision of a StatefulSet keeps is a patch of it.
		{Group: "apps", Kind: "ControllerRevision", Path: "data.spec.template.spec"},
		{Group: "batch", Kind: "Job", Path: "spec.template.spec"},
		{Group: "batch", Kind: "CronJob", Path: "spec.jobTemplate.spec.template.spec"},
	}
}

// podSpec are the references in a pod spec.
func podSpec() []Row {
	var rows []Row
	for _, affinity := range []string{"podAffinity", "podAntiAffinity"} {
		for _, term := range []string{"requiredDuringSchedulingIgnoredDuringExecution",
			"preferredDuringSchedulingIgnoredDuringExecution.podAffinityTerm"} {
			at := "affinity." + affinity + "." + term
			rows = append(rows,
				Row{Path: at + ".namespaces", Op: Namespace},
				Row{Path: at + ".namespaceSelector", Op: NamespaceSelector})
		}
	}
	const claim = "volumes.ephemeral.volumeClaimTemplate.spec"
	return append(rows,
		Row{Path: claim + ".volumeName", Op: ClusterName},
		Row{Path: claim + ".dataSource", Op: Ref},
		Row{Path: claim + ".dataSourceRef", Op: Ref})
}

// containerTexts are the messages in the status of a pod's containers.
func containerTexts() []string {
	var paths []string
	for _, list := range []string{"containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"} {
		paths = append(paths, "status."+list+".allocatedResourcesStatus.resources.message")
		for _, state := range []string{"state", "lastState"} {
			// What a container said when it ended is its own text.
			paths = append(paths, "status."+list+"."+state+".waiting.message")
		}
	}
	return paths
}
