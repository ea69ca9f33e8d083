package noderuntime

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/internal/workload"
)

// State is what is known of one registered runtime.
type State struct {
	// Name is unique on the node.
	Name string `json:"name"`
	// Type is the type of workload it runs.
	Type workload.Type `json:"workloadType"`
	// Endpoint is its CRI socket, "unix:///...".
	Endpoint string `json:"endpoint"`
	// Primary says that the readiness of the node follows this runtime.
	Primary bool `json:"primary"`
	// Ready is True if runtime and network are ready, Unknown before the
	// first answer and when the runtime does not answer.
	Ready corev1.ConditionStatus `json:"ready"`
	// Reason and Message say why, as those of a condition do.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Since is when Ready last changed.
	Since time.Time `json:"since"`
	// Version is the runtime's own name and version, "containerd 2.3.7", if
	// it ever told.
	Version string `json:"version"`
	// Handlers are the names by which RuntimeClasses pick it, or what it runs pods with: those
	// that it listed when it last answered, in order.
	Handlers []string `json:"handlers,omitempty"`
}
