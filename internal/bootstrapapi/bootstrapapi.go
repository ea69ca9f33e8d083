package bootstrapapi

import (
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

// Annotations of bootstrap pods.
const (
	// SourceAnnotation says where a pod came from; Source is its value for
	// pods from this API. The server keeps it, so it marks them for ever.
	SourceAnnotation = "kubernetes.io/config.source"
	Source           = "kubelet-api"
	// UIDAnnotation is on a pod that a node offers to the API server: the
	// UID under which the pod runs already, and which it is to keep. The
	// object's own metadata.uid is set to it too.
	UIDAnnotation = "a4s.io/bootstrap-uid"
	// PersistedAnnotation is in answers of this API only: "true" once the
	// API server has the pod, "false" before.
	PersistedAnnotation = "a4s.io/bootstrap-persisted"
	// MessageAnnotation is in answers of this API only: why the API server
	// has not taken the pod yet.
	MessageAnnotation = "a4s.io/bootstrap-message"
)

// Where the API is.
const (
	// SocketName is the name of its unix socket in the run directory.
	SocketName = "bootstrap.sock"
	// PathPods takes POST (create, 201 with the Pod) and GET (PodList).
	// Below it, named by UID, a pod takes GET and DELETE.
	PathPods = "/pods"
)

// MaxBody is the largest pod that is read, in bytes.
const MaxBody = 1 << 20

// Socket returns the path of the API's socket.
func Socket(runDir string) string { return filepath.Join(runDir, SocketName) }

// PodName is the name that a pod gets on a node, with the name of the node as its suffix, as mirror
// pods have it (kubelet pod API seed, "Naming").
func PodName(name, node string) string { return name + "-" + node }

// IsBootstrap reports whether a pod came from this API.
func IsBootstrap(pod *corev1.Pod) bool { return pod.Annotations[SourceAnnotation] == Source }

// IsPersisted reports whether an answer of this API shows a pod that the API
// server has.
func IsPersisted(pod *corev1.Pod) bool { return pod.Annotations[PersistedAnnotation] == "true" }
