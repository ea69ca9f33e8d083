package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	core "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/pod-security-admission/api"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/localstorage"
)

// checkVolume: a volume that is a directory of a node is what a pod must not
// mount either, unless it was made for this purpose alone. old is nil for a new
// volume.
func (g *guard) checkVolume(ctx context.Context, tenant string, byTenant bool, volume, old *core.PersistentVolume) error {
	if volume.Spec.HostPath == nil && volume.Spec.Local == nil {
		return nil
	}
	switch {
	case volume.Spec.Local != nil && old == nil && !byTenant && provisioned(volume):
		return nil
	case volume.Spec.Local != nil && old != nil && provisioned(old):
		// Upstream lets nobody change what the volume is.
		if byTenant {
			return keepsState(volume, old)
		}
		return nil
	}
	level, err := g.level(ctx, tenant)
	if err != nil || level == api.LevelPrivileged {
		return err
	}
	return errors.New("hostPath and local volumes are directories of nodes, which tenants share; claim a volume of a StorageClass")
}

// provisioned tells a volume that the cluster made for a claim.
func provisioned(volume *core.PersistentVolume) bool {
	return volume.Annotations[localstorage.ProvisionedBy] == localstorage.Provisioner
}

// keepsState refuses what would let a volume go while its node has the
// directory: nobody would remove it any more.
func keepsState(volume, old *core.PersistentVolume) error {
	for _, key := range []string{localstorage.ProvisionedBy, localstorage.State} {
		if volume.Annotations[key] != old.Annotations[key] {
			return fmt.Errorf("the annotation %s is the cluster's", key)
		}
	}
	if slices.Contains(old.Finalizers, localstorage.Finalizer) && !slices.Contains(volume.Finalizers, localstorage.Finalizer) && volume.Spec.PersistentVolumeReclaimPolicy == core.PersistentVolumeReclaimDelete {
		return fmt.Errorf("the finalizer %s is the cluster's; it goes when the node has removed the directory", localstorage.Finalizer)
	}
	return nil
}

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
