package kinds

// FieldRows is the table of the fields of all kinds that tenants write, and of
// what they write about them: a scale, an eviction, a token.
func FieldRows() []Fields {
	const (
		network    = "the API server and the network of all tenants go by this address"
		accounting = "what a tenant uses of its limits and of the nodes is counted by it"
		kubelet    = "the node of the pod says it, and goes by it when it starts again"
		scheduler  = "the scheduler keeps room by it"
		devices    = "the devices of nodes are given out by it"
		volumes    = "the nodes and the drivers of volumes go by it"
		quotas     = "what of a class of volumes is used is counted by it"
		measured   = "the nodes measure it"
		counted    = "the system counts it"
	)
	const (
		policyStatus = "observedGeneration typeChecking conditions"
		policyScope  = "failurePolicy matchConditions matchConstraints paramKind variables"
		binding      = "policyName paramRef matchResources"
		review       = "allowed denied reason evaluationError"
		template     = "minReadySeconds replicas selector template"
		replicas     = "replicas fullyLabeledReplicas readyReplicas availableReplicas observedGeneration conditions"
		group        = "parentCompositePodGroupName workloadRef schedulingPolicy schedulingConstraints " +
			"disruptionMode priorityClassName priority preemptionPolicy"
	)
	return []Fields{
		fields("", "ConfigMap", own("", "data binaryData immutable")),
		fields("", "Endpoints", own("", "subsets")),
		fields("", "Event", own("", "involvedObject reason message source firstTimestamp lastTimestamp count type "+
			"eventTime series action related reportingComponent reportingInstance")),
		fields("", "LimitRange", own("spec", "limits")),
		fields("", "Namespace", own("spec", "finalizers"),
			made("status", "phase", "whether anything can still be made in the namespace is known by it"),
			own("status", "conditions")),
		fields("", "PersistentVolumeClaim",
			own("spec", "accessModes selector resources volumeName storageClassName volumeMode dataSource "+
				"dataSourceRef volumeAttributesClassName"),
			made("status", "phase", volumes),
			systems("status", "accessModes capacity allocatedResourceStatuses modifyVolumeStatus healthStatus",
				volumes),
			systems("status", "allocatedResources", accounting),
			systems("status", "currentVolumeAttributesClassName", quotas),
			own("status", "conditions")),
		fields("", "PersistentVolume",
			own("spec", "capacity accessModes claimRef persistentVolumeReclaimPolicy storageClassName mountOptions "+
				"volumeMode nodeAffinity volumeAttributesClassName"),
			own("spec", "awsElasticBlockStore azureDisk azureFile cephfs cinder csi fc flexVolume flocker "+
				"gcePersistentDisk glusterfs hostPath iscsi local nfs photonPersistentDisk portworxVolume "+
				"quobyte rbd scaleIO storageos vsphereVolume"),
			made("status", "phase", "the node removes the directory of a volume by it"),
			made("status", "lastPhaseTransitionTime", volumes),
			own("status", "message reason")),
		fields("", "Pod",
			own("spec", "volumes initContainers containers ephemeralContainers restartPolicy "+
				"terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName "+
				"serviceAccount automountServiceAccountToken nodeName hostNetwork hostPID hostIPC "+
				"shareProcessNamespace securityContext imagePullSecrets hostname subdomain affinity schedulerName "+
				"tolerations hostAliases priorityClassName priority dnsConfig readinessGates runtimeClassName "+
				"enableServiceLinks preemptionPolicy overhead topologySpreadConstraints setHostnameAsFQDN os "+
				"hostUsers schedulingGates resourceClaims resources hostnameOverride schedulingGroup "+
				"evictionResponders"),
			own("status", "conditions message reason"),
			made("status", "observedGeneration qosClass", kubelet),
			systems("status", "ephemeralContainerStatuses volumeHealth", kubelet),
			made("status", "phase",
				"a pod that has ended counts for no limit, and its address is given to another"),
			systems("status", "nominatedNodeName", scheduler),
			systems("status", "hostIP hostIPs podIP podIPs", network),
			systems("status", "startTime", "controllers of the cluster reckon deadlines and preemption by it"),
			systems("status", "initContainerStatuses containerStatuses resize allocatedResources resources "+
				"nodeAllocatableResourceClaimStatuses", accounting),
			systems("status", "resourceClaimStatuses extendedResourceClaimStatus", devices)),
		fields("", "PodTemplate", own("", "template")),
		fields("", "ReplicationController", own("spec", template), own("status", replicas)),
		fields("", "ResourceQuota", own("spec", "hard scopes scopeSelector"), own("status", "hard used")),
		fields("", "Secret", own("", "data stringData immutable type")),
		fields("", "Service",
			own("spec", "ports selector clusterIP clusterIPs type externalIPs sessionAffinity loadBalancerIP "+
				"loadBalancerSourceRanges externalName externalTrafficPolicy healthCheckNodePort "+
				"publishNotReadyAddresses sessionAffinityConfig ipFamilies ipFamilyPolicy "+
				"allocateLoadBalancerNodePorts loadBalancerClass internalTrafficPolicy trafficDistribution"),
			made("status", "loadBalancer",
				"every node sends what goes to these addresses to this Service, whoever sends it"),
			own("status", "conditions")),
		fields("", "ServiceAccount", own("", "secrets imagePullSecrets automountServiceAccountToken")),
		fields("", "TenantAccess",
			own("spec", "tenant user groups serviceAccount role namespace expirationSeconds expires secret server"),
			systems("status", "conditions tenantUID expirationTimestamp binding namespaces",
				"the system deletes the binding that it names, and says by it what it gave out")),
		fields("", "TenantUsage", systems("", "usage", counted)),

		fields(admission, "MutatingAdmissionPolicy", own("spec", policyScope+" mutations reinvocationPolicy")),
		fields(admission, "MutatingAdmissionPolicyBinding", own("spec", binding)),
		fields(admission, "MutatingWebhookConfiguration", own("", "webhooks")),
		fields(admission, "ValidatingAdmissionPolicy", own("spec", policyScope+" validations auditAnnotations"),
			own("status", policyStatus)),
		fields(admission, "ValidatingAdmissionPolicyBinding", own("spec", binding+" validationActions")),
		fields(admission, "ValidatingWebhookConfiguration", own("", "webhooks")),

		fields("apiextensions.k8s.io", "CustomResourceDefinition",
			own("spec", "group names scope versions conversion preserveUnknownFields"),
			systems("status", "acceptedNames", "the API and the collector of garbage know the kind by these names"),
			// Migrators take versions out of storedVersions.
			own("status", "conditions storedVersions observedGeneration")),

		fields("apps", "ControllerRevision", own("", "data revision")),
		fields("apps", "Deployment", own("spec", template+" strategy revisionHistoryLimit paused "+
			"progressDeadlineSeconds rollbackTo"),
			own("status", "observedGeneration replicas updatedReplicas readyReplicas availableReplicas "+
				"unavailableReplicas terminatingReplicas conditions collisionCount")),
		fields("apps", "ReplicaSet", own("spec", template), own("status", replicas+" terminatingReplicas")),
		fields("apps", "StatefulSet", own("spec", template+" volumeClaimTemplates serviceName podManagementPolicy "+
			"updateStrategy revisionHistoryLimit persistentVolumeClaimRetentionPolicy ordinals"),
			own("status", "observedGeneration replicas readyReplicas currentReplicas updatedReplicas "+
				"currentRevision updateRevision collisionCount conditions availableReplicas")),

		// The API server answers a question in its status, whatever was there.
		fields("authentication.k8s.io", "SelfSubjectReview", own("status", "userInfo")),
		fields("authentication.k8s.io", "TokenRequest",
			own("spec", "audiences expirationSeconds boundObjectRef attestations"),
			own("status", "token expirationTimestamp")),
		fields("authentication.k8s.io", "TokenReview", own("spec", "token audiences"),
			own("status", "authenticated user audiences error")),
		fields(authnz, "LocalSubjectAccessReview",
			own("spec", "resourceAttributes nonResourceAttributes user group groups extra uid"),
			own("status", review)),
		fields(authnz, "SelfSubjectAccessReview", own("spec", "resourceAttributes nonResourceAttributes"),
			own("status", review)),
		fields(authnz, "SelfSubjectRulesReview", own("spec", "namespace"),
			own("status", "resourceRules nonResourceRules incomplete evaluationError")),
		fields(authnz, "SubjectAccessReview",
			own("spec", "resourceAttributes nonResourceAttributes user group groups extra uid"),
			own("status", review)),

		fields("autoscaling", "HorizontalPodAutoscaler",
			own("spec", "scaleTargetRef minReplicas maxReplicas metrics behavior targetCPUUtilizationPercentage"),
			own("status", "observedGeneration lastScaleTime currentReplicas desiredReplicas currentMetrics "+
				"conditions currentCPUUtilizationPercentage")),
		fields("autoscaling", "Scale", own("spec", "replicas"), own("status", "replicas selector")),
		fields("batch", "CronJob",
			own("spec", "schedule timeZone startingDeadlineSeconds concurrencyPolicy suspend jobTemplate "+
				"successfulJobsHistoryLimit failedJobsHistoryLimit"),
			systems("status", "active", "the controller of the cluster deletes the jobs that it names"),
			own("status", "lastScheduleTime lastSuccessfulTime")),
		// A job can have a controller of the tenant's own (spec.managedBy).
		fields("batch", "Job",
			own("spec", "parallelism completions activeDeadlineSeconds podFailurePolicy successPolicy backoffLimit "+
				"backoffLimitPerIndex maxFailedIndexes selector manualSelector template ttlSecondsAfterFinished "+
				"completionMode suspend podReplacementPolicy managedBy scheduling"),
			own("status", "conditions startTime completionTime active succeeded failed terminating completedIndexes "+
				"failedIndexes uncountedTerminatedPods ready")),
		fields(coord, "Lease", own("spec", "holderIdentity leaseDurationSeconds acquireTime renewTime "+
			"leaseTransitions strategy preferredHolder")),
		fields(coord, "LeaseCandidate",
			own("spec", "leaseName pingTime renewTime binaryVersion emulationVersion strategy")),
		fields("discovery.k8s.io", "EndpointSlice", own("", "addressType endpoints ports")),
		fields("events.k8s.io", "Event", own("", "eventTime series reportingController reportingInstance action "+
			"reason regarding related note type deprecatedSource deprecatedFirstTimestamp deprecatedLastTimestamp "+
			"deprecatedCount")),
		fields("metrics.k8s.io", "PodMetrics", systems("", "timestamp window containers", measured)),
		fields(net, "Ingress", own("spec", "ingressClassName defaultBackend backend tls rules"),
			own("status", "loadBalancer")),
		fields(net, "NetworkPolicy", own("spec", "podSelector ingress egress policyTypes")),
		fields("policy", "Eviction", own("", "deleteOptions")),
		fields("policy", "PodDisruptionBudget",
			own("spec", "minAvailable selector maxUnavailable unhealthyPodEvictionPolicy"),
			own("status", "observedGeneration disruptedPods disruptionsAllowed currentHealthy desiredHealthy "+
				"expectedPods conditions")),
		fields(rbac, "ClusterRole", own("", "rules aggregationRule")),
		fields(rbac, "ClusterRoleBinding", own("", "subjects roleRef")),
		fields(rbac, "Role", own("", "rules")),
		fields(rbac, "RoleBinding", own("", "subjects roleRef")),
		fields(resource, "ResourceClaim", own("spec", "devices"),
			systems("status", "allocation reservedFor", devices),
			systems("status", "devices", "the drivers of devices say it, and the network of pods can go by it")),
		fields(resource, "ResourceClaimTemplate", own("spec", "metadata spec")),
		fields(sched, "CompositePodGroup", own("spec", group), own("status", "conditions")),
		fields(sched, "PodGroup", own("spec", group+" resourceClaims"), own("status", "conditions"),
			systems("status", "resourceClaimStatuses", devices)),
		fields(sched, "Workload", own("spec", "controllerRef podGroupTemplates compositePodGroupTemplates")),
	}
}
