package mux

import runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

// kind is how a call is routed.
type kind int

const (
	toPrimary    kind = iota // also what this version does not know
	toSandbox                // by the sandbox in field 1
	toContainer              // by the container in field 1
	runSandbox               // by the workload type
	createInside             // by the sandbox in field 1, with native names
	listAll                  // lists of all runtimes, one after the other
	listUnique               // the same, without items that have the name of another
	listImages               // the same, and two images of an id become one
	listFS                   // file systems of images
	streamAll                // lists in pieces
	askStatus                // of the primary runtime, with grace
	askVersion               // the same
	tellAll                  // to every runtime
	followEvents             // of every runtime
	toImage                  // by the pod for which the image is
	removeImage              // from every runtime
)

// kindOf returns how calls of a method are routed.
func kindOf(method string) kind {
	switch method {
	case runtimeapi.RuntimeService_RunPodSandbox_FullMethodName:
		return runSandbox
	case runtimeapi.RuntimeService_CreateContainer_FullMethodName:
		return createInside
	case runtimeapi.RuntimeService_StopPodSandbox_FullMethodName,
		runtimeapi.RuntimeService_RemovePodSandbox_FullMethodName,
		runtimeapi.RuntimeService_PodSandboxStatus_FullMethodName,
		runtimeapi.RuntimeService_PodSandboxStats_FullMethodName,
		runtimeapi.RuntimeService_PortForward_FullMethodName,
		runtimeapi.RuntimeService_UpdatePodSandboxResources_FullMethodName:
		return toSandbox
	case runtimeapi.RuntimeService_StartContainer_FullMethodName,
		runtimeapi.RuntimeService_StopContainer_FullMethodName,
		runtimeapi.RuntimeService_RemoveContainer_FullMethodName,
		runtimeapi.RuntimeService_ContainerStatus_FullMethodName,
		runtimeapi.RuntimeService_ContainerStats_FullMethodName,
		runtimeapi.RuntimeService_UpdateContainerResources_FullMethodName,
		runtimeapi.RuntimeService_ReopenContainerLog_FullMethodName,
		runtimeapi.RuntimeService_CheckpointContainer_FullMethodName,
		runtimeapi.RuntimeService_ExecSync_FullMethodName,
		runtimeapi.RuntimeService_Exec_FullMethodName,
		runtimeapi.RuntimeService_Attach_FullMethodName:
		return toContainer
	case runtimeapi.RuntimeService_ListPodSandbox_FullMethodName,
		runtimeapi.RuntimeService_ListContainers_FullMethodName,
		runtimeapi.RuntimeService_ListPodSandboxStats_FullMethodName,
		runtimeapi.RuntimeService_ListContainerStats_FullMethodName,
		runtimeapi.RuntimeService_ListPodSandboxMetrics_FullMethodName:
		return listAll
	case runtimeapi.RuntimeService_ListMetricDescriptors_FullMethodName:
		return listUnique
	case runtimeapi.ImageService_ListImages_FullMethodName:
		return listImages
	case runtimeapi.ImageService_ImageFsInfo_FullMethodName:
		return listFS
	case runtimeapi.RuntimeService_Status_FullMethodName:
		return askStatus
	case runtimeapi.RuntimeService_Version_FullMethodName:
		return askVersion
	case runtimeapi.RuntimeService_UpdateRuntimeConfig_FullMethodName:
		return tellAll
	case runtimeapi.RuntimeService_GetContainerEvents_FullMethodName:
		return followEvents
	case runtimeapi.ImageService_ImageStatus_FullMethodName, runtimeapi.ImageService_PullImage_FullMethodName:
		return toImage
	case runtimeapi.ImageService_RemoveImage_FullMethodName:
		return removeImage
	}
	if unstreamed(method) != "" {
		return streamAll
	}
	return toPrimary
}

// unstreamed returns the method that gives in one answer what this one gives
// in several; both have the same filter in the request and the same items in
// the answer. It is empty for methods that are no lists in pieces.
func unstreamed(method string) string {
	switch method {
	case runtimeapi.RuntimeService_StreamPodSandboxes_FullMethodName:
		return runtimeapi.RuntimeService_ListPodSandbox_FullMethodName
	case runtimeapi.RuntimeService_StreamContainers_FullMethodName:
		return runtimeapi.RuntimeService_ListContainers_FullMethodName
	case runtimeapi.RuntimeService_StreamContainerStats_FullMethodName:
		return runtimeapi.RuntimeService_ListContainerStats_FullMethodName
	case runtimeapi.RuntimeService_StreamPodSandboxStats_FullMethodName:
		return runtimeapi.RuntimeService_ListPodSandboxStats_FullMethodName
	case runtimeapi.RuntimeService_StreamPodSandboxMetrics_FullMethodName:
		return runtimeapi.RuntimeService_ListPodSandboxMetrics_FullMethodName
	case runtimeapi.ImageService_StreamImages_FullMethodName:
		return runtimeapi.ImageService_ListImages_FullMethodName
	}
	return ""
}

// remembered returns what a list is about, if a runtime that is unreachable
// has to be answered for.
func remembered(method string) (objectKind, bool) {
	switch method {
	case runtimeapi.RuntimeService_ListPodSandbox_FullMethodName:
		return sandboxes, true
	case runtimeapi.RuntimeService_ListContainers_FullMethodName:
		return containers, true
	}
	return 0, false
}

// reads reports whether a call to an owner changes nothing, so that it may end
// early.
func reads(method string) bool {
	switch method {
	case runtimeapi.RuntimeService_PodSandboxStatus_FullMethodName,
		runtimeapi.RuntimeService_PodSandboxStats_FullMethodName,
		runtimeapi.RuntimeService_ContainerStatus_FullMethodName,
		runtimeapi.RuntimeService_ContainerStats_FullMethodName:
		return true
	}
	return false
}
