package references

// Reviewed are the fields that look like references and are not translated,
// with the reason. A key is the end of a path, or "type" and the Go type of
// the field without its version.
func Reviewed() map[string]string {
	const (
		local    = "an object of the same namespace"
		shared   = "an object of the system that every space sees under the same name"
		node     = "nodes have no tenant"
		pods     = "selects by labels, which are the same in both forms, within namespaces"
		process  = "a user or a group of the operating system"
		storage  = "a name in a storage system outside of the cluster"
		admitted = "the admission of a tenant runs on the native form of objects"
		template = "the metadata of a template: controllers take labels and annotations only"
		inPod    = "a name within the pod"
		inObject = "a name within the object"
		code     = "a word for programs"
		attr     = "the authorizer translates the attributes of reviews as those of requests"
	)
	const named = "what a definition calls its resource, which is the same in both forms"
	return map[string]string{
		"spec.group":                                 named,
		"spec.names.shortNames":                      named,
		"status.acceptedNames":                       named,
		"status.acceptedNames.shortNames":            named,
		"x-kubernetes-validations.message":           "the rules of a schema are the tenant's own text",
		"x-kubernetes-validations.messageExpression": "the rules of a schema are the tenant's own text",
		"scale.labelSelectorPath":                    "a path within custom resources",

		"type LocalObjectReference":           local,
		"type ConfigMapKeySelector":           local,
		"type ConfigMapEnvSource":             local,
		"type SecretKeySelector":              local,
		"type SecretEnvSource":                local,
		"type ResourceClaimConsumerReference": local,
		"type BoundObjectReference":           local,
		"type WorkloadReference":              local,
		"backend.serviceName":                 local,
		"spec.leaseName":                      local,
		"spec.serviceAccountName":             local,
		"spec.serviceName":                    local,
		"terminated.message":                  "what a container said when it ended is its own text",
		"secretName":                          local,
		"persistentVolumeClaim.claimName":     local,
		"resourceClaimName":                   local,
		"resourceClaimTemplateName":           local,
		"schedulingGroup.podGroupName":        local,
		"workloadRef.workloadName":            local,
		"workloadRef.templateName":            local,
		"parentCompositePodGroupName":         local,

		"deviceClassName":                       shared,
		"ingressClassName":                      shared,
		"priorityClassName":                     shared,
		"runtimeClassName":                      shared,
		"storageClassName":                      shared,
		"volumeAttributesClassName":             shared,
		"currentVolumeAttributesClassName":      shared,
		"targetVolumeAttributesClassName":       shared,
		"clusterTrustBundle.signerName":         shared,
		"podCertificate.signerName":             shared,
		"spec.parameters":                       "IngressClasses are of the system",
		"spec.parameters.namespace":             "IngressClasses are of the system",
		"spec.signerName":                       "ClusterTrustBundles are of the system",
		"spec.extendedResourceName":             "DeviceClasses are of the system",
		"driverName":                            "drivers are of the system",
		"spec.schedulerName":                    "schedulers are of the system",
		"windowsOptions.gmsaCredentialSpecName": "credentials are of the nodes",

		"nodeName":          node,
		"nominatedNodeName": node,
		"nodeSelector":      node,
		"nodeSelectorTerms": node,

		"labelSelector":     pods,
		"objectSelector":    admitted,
		"podSelector":       pods,
		"spec.selector":     pods,
		"status.selector":   pods,
		"metric.selector":   "selects among the values of a metric",
		"paramRef.selector": admitted,
		"scopeSelector":     "selects by the scopes of a quota",
		"selectors":         "expressions over the attributes of devices",

		"matchConstraints.namespaceSelector": admitted,
		"matchResources.namespaceSelector":   admitted,
		"webhooks.namespaceSelector":         admitted,
		"resourceRules.resourceNames":        admitted,
		"excludeResourceRules.resourceNames": admitted,
		"validations.message":                "written by the tenant itself",
		"validations.messageExpression":      "written by the tenant itself",
		"expressionWarnings.fieldRef":        "a path in the policy",
		"rules.resourceNames":                "the authorizer compares them with native names",
		"resourceAttributes.group":           "an API group",
		"resourceAttributes.fieldSelector":   attr,
		"resourceAttributes.labelSelector":   attr,
		"fieldSelector.rawSelector":          attr,
		"labelSelector.rawSelector":          attr,
		"resourceRules.apiGroups":            "API groups",
		"excludeResourceRules.apiGroups":     "API groups",
		"rules.apiGroups":                    "API groups",
		"apiGroup":                           "an API group",
		"status.resourceRules.resourceNames": "native, as in the rules",

		"template.metadata.namespace":                    template,
		"template.metadata.ownerReferences":              template,
		"template.metadata.generateName":                 template,
		"jobTemplate.metadata.namespace":                 template,
		"jobTemplate.metadata.ownerReferences":           template,
		"jobTemplate.metadata.generateName":              template,
		"volumeClaimTemplate.metadata.namespace":         template,
		"volumeClaimTemplate.metadata.ownerReferences":   template,
		"volumeClaimTemplate.metadata.generateName":      template,
		"volumeClaimTemplates.metadata.namespace":        "the controller puts the namespace of the set",
		"volumeClaimTemplates.metadata.generateName":     template,
		"volumeClaimTemplates.status.conditions.message": "claims in a template have no status",
		"spec.metadata.namespace":                        template,
		"spec.metadata.ownerReferences":                  template,
		"spec.metadata.generateName":                     template,

		"seLinuxOptions.user":          process,
		"windowsOptions.runAsUserName": process,

		"azureDisk.diskName":              storage,
		"azureFile.shareName":             storage,
		"flocker.datasetName":             storage,
		"gcePersistentDisk.pdName":        storage,
		"iscsi.initiatorName":             storage,
		"cephfs.user":                     storage,
		"quobyte.group":                   storage,
		"quobyte.tenant":                  storage,
		"quobyte.user":                    storage,
		"rbd.user":                        storage,
		"scaleIO.volumeName":              storage,
		"storageos.volumeName":            storage,
		"storageos.volumeNamespace":       storage,
		"vsphereVolume.storagePolicyName": storage,

		"valueFrom.fieldRef":             "a path in the pod",
		"items.fieldRef":                 "a path in the pod",
		"type ResourceFieldSelector":     inPod,
		"type FileKeySelector":           inPod,
		"fileKeyRef.volumeName":          inPod,
		"containerName":                  inPod,
		"targetContainerName":            inPod,
		"terminationMessagePath":         inPod,
		"terminationMessagePolicy":       code,
		"resourceName":                   "a resource as cpu",
		"requestName":                    inObject,
		"imageRef":                       "an image in a registry",
		"podCertificate.userAnnotations": "for the signer, written by the tenant itself",
		"type ContainerUser":             process,
		"spec.backend.resource":          "of a version that is not served",
		"matchExpressions.scopeName":     code,
		"fsGroupChangePolicy":            code,
		"fsGroupPolicy":                  code,
		"supplementalGroupsPolicy":       code,
		"spec.schedulingGroup":           local,
		"type RawExtension":              "what is in it has no schema",
		"ports.error":                    code,
		"networkData.interfaceName":      "a device in the network of the pod",
		"spec.externalName":              "a name of DNS, which answers each tenant in the native form",
		"volumeClaimTemplates.status.healthStatus.healthConditions.message": "nobody sets the status of a template, " +
			"besides whoever wrote the template",
		"podGroupTemplates":          inObject,
		"compositePodGroupTemplates": inObject,
	}
}
