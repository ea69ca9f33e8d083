package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	core "k8s.io/kubernetes/pkg/apis/core"
	corev1convert "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/pod-security-admission/api"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/addons/localstorage"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// openTypes are the volumes that lead nowhere but into the space: those of the
// level restricted.
func openTypes() []string {
	return []string{"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim",
		"projected", "secret"}
}

// checkVolumeTypes keeps pods from mounting what their nodes reach: disks of the
// node, of others, of the network behind it. What hostPath may do is a matter of
// the level.
func (g *guard) checkVolumeTypes(ctx context.Context, tenant string, volumes []corev1.Volume) error {
	types, err := g.allowed(ctx, tenant, allowances.VolumeTypes)
	if err != nil {
		return err
	}
	for i, volume := range volumes {
		for _, source := range allowances.SourcesOf(volume.VolumeSource) {
			if source == "hostPath" || slices.Contains(openTypes(), source) || types.Has(source) {
				continue
			}
			return fmt.Errorf("spec.volumes[%d] is of the type %s, by which a pod reaches what its node reaches: "+
				"claim a volume of a StorageClass, or have an administrator of the cluster allow the type by the "+
				"annotation %s of the tenant", i, source, allowances.VolumeTypes)
		}
	}
	return nil
}

// checkVolume looks at a persistent volume. One that a tenant writes is what an
// inline volume is: whatever its source names is mounted by the node. Old is nil
// for a new volume, and upstream lets nobody change what a volume is.
func (g *guard) checkVolume(
	ctx context.Context, tenant string, byTenant bool, volume, old *core.PersistentVolume,
) error {
	if byTenant && provisioned(volume) && (old == nil || !provisioned(old)) {
		return fmt.Errorf("the annotation %s is the cluster's: only what it provisions has it",
			localstorage.ProvisionedBy)
	}
	if old != nil {
		if byTenant && provisioned(old) {
			return keepsState(volume, old)
		}
		if equality.Semantic.DeepEqual(old.Spec.PersistentVolumeSource, volume.Spec.PersistentVolumeSource) {
			return nil
		}
	}
	level, err := g.level(ctx, tenant)
	if err != nil || level == api.LevelPrivileged {
		return err
	}
	if volume.Spec.HostPath != nil || volume.Spec.Local != nil {
		if volume.Spec.Local != nil && !byTenant && provisioned(volume) {
			return nil // the tenant's admission is not asked about it
		}
		return errors.New("hostPath and local volumes are directories of nodes, which tenants share; " +
			"claim a volume of a StorageClass")
	}
	if !byTenant {
		return nil
	}
	types, err := g.allowed(ctx, tenant, allowances.VolumeTypes)
	if err != nil {
		return err
	}
	if csi := volume.Spec.CSI; csi != nil {
		drivers, err := g.allowed(ctx, tenant, allowances.CSIDrivers)
		if err != nil {
			return err
		}
		if !drivers.Has(csi.Driver) {
			return fmt.Errorf("a volume of the driver %s can be anybody's: claim one of a StorageClass, "+
				"or have an administrator of the cluster allow the driver by the annotation %s of the tenant",
				csi.Driver, allowances.CSIDrivers)
		}
		return nil
	}
	for _, source := range allowances.SourcesOf(externalSource(volume)) {
		if !types.Has(source) {
			return fmt.Errorf("a volume of the type %s can be anybody's: claim one of a StorageClass, "+
				"or have an administrator of the cluster allow the type by the annotation %s of the tenant", source,
				allowances.VolumeTypes)
		}
	}
	return nil
}

// externalSource is the source of a volume with the names of the API.
func externalSource(volume *core.PersistentVolume) corev1.PersistentVolumeSource {
	var out corev1.PersistentVolumeSource
	source := volume.Spec.PersistentVolumeSource
	// What cannot be converted is not valid, and refused by upstream.
	_ = corev1convert.Convert_core_PersistentVolumeSource_To_v1_PersistentVolumeSource(&source, &out, nil)
	return out
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
	if slices.Contains(old.Finalizers, localstorage.Finalizer) && !slices.Contains(volume.Finalizers,
		localstorage.Finalizer) && volume.Spec.PersistentVolumeReclaimPolicy == core.PersistentVolumeReclaimDelete {
		return fmt.Errorf("the finalizer %s is the cluster's; it goes when the node has removed the directory",
			localstorage.Finalizer)
	}
	return nil
}

// checkBinding keeps the volumes of a tenant to their claims, whoever binds them.
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
// (server/tenancy/storage) and write back what they saw. And a volume that was made for
// a tenant's claim is one of the system, whose name the tenant sees as it is:
// what they write back was composed as if it were one of their own.
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
