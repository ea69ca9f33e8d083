package admission

import (
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/space"
)

// checkBinding keeps the volumes of a tenant to his claims, whoever binds them.
func checkBinding(attr admission.Attributes) error {
	if op := attr.GetOperation(); op != admission.Create && op != admission.Update {
		return nil
	}
	volume, ok := attr.GetObject().(*core.PersistentVolume)
	if !ok || volume.Spec.ClaimRef == nil {
		return nil
	}
	of, _ := space.SplitClusterName(volume.Name)
	if by, _ := space.SplitNamespace(volume.Spec.ClaimRef.Namespace); of != space.System && by != of {
		return admission.NewForbidden(attr, errors.New("a volume of a tenant is for claims of the same tenant"))
	}
	return nil
}

// restoreClaim gives a claim back what is not for everybody to see.
//
// Those who bind claims see a selector for the volumes of the claim's space
// (server/storage) and write back what they saw. And a volume that was made for
// a tenant's claim is one of the system, whose name the tenant sees as it is:
// what he writes back was composed as if it were one of his own.
func restoreClaim(attr admission.Attributes) {
	claim, ok := attr.GetObject().(*core.PersistentVolumeClaim)
	if !ok {
		return
	}
	old, _ := attr.GetOldObject().(*core.PersistentVolumeClaim)
	restoreSelector(claim, old)
	if old == nil || old.Spec.VolumeName == "" {
		return
	}
	tenant, _ := space.SplitNamespace(claim.Namespace)
	if claim.Spec.VolumeName == space.ClusterName(tenant, old.Spec.VolumeName) {
		claim.Spec.VolumeName = old.Spec.VolumeName
	}
}

func restoreSelector(claim, old *core.PersistentVolumeClaim) {
	s := claim.Spec.Selector
	reserved := func(r metav1.LabelSelectorRequirement) bool { return r.Key == space.Label }
	if s == nil || !slices.ContainsFunc(s.MatchExpressions, reserved) {
		return
	}
	s = s.DeepCopy()
	s.MatchExpressions = slices.DeleteFunc(s.MatchExpressions, reserved)
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 && (old == nil || old.Spec.Selector == nil) {
		s = nil
	}
	claim.Spec.Selector = s
}
