package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// PrimaryAnnotation of a Node names the type of its primary runtime, the one
// that the readiness of the node follows.
const PrimaryAnnotation = "a4s.io/primary-runtime"

// HandlerLabel is what the labels of a Node begin with that name the handlers of RuntimeClasses
// which its runtimes have: a class can select nodes by them. Their value is HandlerOffered.
const (
	HandlerLabel   = "runtime.a4s.io/"
	HandlerOffered = "true"
)

// NetworkNotReady is the reason, in the words of containerd and CRI-O, of a
// runtime that works itself and only has no pod network. Pods of the host's
// network can run there, or nothing could ever install a network.
const NetworkNotReady = "NetworkPluginNotReady"

// PrimaryOf is the type of a Node's primary runtime.
func PrimaryOf(node *corev1.Node) Type {
	if t, err := Parse(node.Annotations[PrimaryAnnotation]); err == nil {
		return t
	}
	return Container
}

// NotReadyReason says why a node with these conditions and this primary runtime
// cannot run a pod of type t; it is empty if the node can. The text is the same
// for all nodes with the same reason.
func NotReadyReason(t Type, hostNetwork bool, primary Type, conditions []corev1.NodeCondition) string {
	if missing := unready(t, hostNetwork, conditions); missing != "" {
		return fmt.Sprintf("no ready %s runtime (%s)", t, missing)
	}
	if t == primary {
		return ""
	}
	// Whatever such a pod depends on, its network above all, runs on the
	// primary runtime.
	if missing := unready(primary, false, conditions); missing != "" {
		return fmt.Sprintf("no ready primary runtime for a pod of type %s (%s)", t, missing)
	}
	return ""
}

func unready(t Type, hostNetwork bool, conditions []corev1.NodeCondition) string {
	for i := range conditions {
		c := &conditions[i]
		switch {
		case c.Type != t.Condition():
			continue
		case c.Status == corev1.ConditionTrue:
			return ""
		case hostNetwork && c.Status == corev1.ConditionFalse && c.Reason == NetworkNotReady:
			return ""
		case c.Reason == "":
			return fmt.Sprintf("%s is %s", c.Type, c.Status)
		}
		return fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Reason)
	}
	return "none is registered"
}
