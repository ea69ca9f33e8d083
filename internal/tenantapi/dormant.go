package tenantapi

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Dormant reports whether nobody has used the space of the tenant yet, so that its
// default objects do not exist.
func (in *Tenant) Dormant() bool {
	c := meta.FindStatusCondition(in.Status.Conditions, SpaceReady)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == ReasonDormant
}

// Made reports whether the default objects of the space exist.
func (in *Tenant) Made() bool {
	c := meta.FindStatusCondition(in.Status.Conditions, SpaceReady)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason != ReasonDormant
}

// DormantCondition is what the status of a new Tenant says.
func DormantCondition(now metav1.Time) metav1.Condition {
	return metav1.Condition{
		Type: SpaceReady, Status: metav1.ConditionTrue, Reason: ReasonDormant, LastTransitionTime: now,
		ObservedGeneration: 1,
		Message:            "the default objects of the space are made at its first request",
	}
}

// MadeCondition is what the status says once the default objects exist.
func MadeCondition() metav1.Condition {
	return metav1.Condition{
		Type: SpaceReady, Status: metav1.ConditionTrue, Reason: ReasonMade,
		Message: "the default objects of the space exist",
	}
}
