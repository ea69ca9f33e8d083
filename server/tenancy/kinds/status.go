package kinds

import (
	"slices"
	"strings"
)

// TenantsPodCondition reports whether a condition of a pod is the tenant's to
// write; gates are the conditions that the readiness gates of the pod name. Those
// that upstream writes without a domain, such as the ones of a resize, which
// quotas are reckoned by, are not; what only says whether the tenant's own pod is
// ready is, and so is a condition of anybody's own: one that has a domain, or that
// the pod itself waits for.
func TenantsPodCondition(condition string, gates []string) bool {
	switch condition {
	case "Ready", "ContainersReady", "Initialized":
		return true
	}
	return strings.Contains(condition, "/") ||
		slices.Contains(gates, condition) && !slices.Contains(SystemPodConditions(), condition)
}

// SystemPodConditions are those that upstream writes, and that a readiness gate
// gives to nobody.
func SystemPodConditions() []string {
	return []string{"PodScheduled", "DisruptionTarget", "PodReadyToStartContainers", "PodResizePending",
		"PodResizeInProgress", "AllContainersRestarting"}
}
