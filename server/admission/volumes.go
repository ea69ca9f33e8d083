package admission

import (
	"errors"

	"k8s.io/apiserver/pkg/admission"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/space"
)

// checkBinding keeps the volumes of a tenant to his claims. Upstream's
// controller matches claims with the volumes of all spaces, by class and size.
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
