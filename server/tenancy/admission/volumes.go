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

// storage judges what pods, claims and volumes say of storage.
type storage struct{ permits }

// checkVolumes keeps pods from mounting what their nodes reach: disks of the node,
// of others, of the network behind it. What hostPath may do is a matter of the
// level. A volume that stands in the pod is judged as one that stands for itself.
func (g storage) checkVolumes(ctx context.Context, tenant string, volumes []corev1.Volume) error {
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
				"claim a volume of a StorageClass, or have an administrator of the cluster allow the type by %s of "+
				"the tenant", i, source, allowances.Field(allowances.VolumeTypes))
		}
		if csi := volume.CSI; csi != nil {
			if err := g.checkDriver(ctx, tenant, csi.Driver); err != nil {
				return fmt.Errorf("spec.volumes[%d]: %w", i, err)
			}
		}
		if of := volume.Ephemeral; of != nil && of.VolumeClaimTemplate != nil {
			// Without a class it gets one when the claim is made, which is judged as well.
			named := classesOf(of.VolumeClaimTemplate.Annotations, of.VolumeClaimTemplate.Spec.StorageClassName,
				of.VolumeClaimTemplate.Spec.VolumeAttributesClassName)
			if err := g.checkNamed(ctx, tenant, named); err != nil {
				return fmt.Errorf("spec.volumes[%d]: %w", i, err)
			}
		}
	}
	return nil
}

// checkDriver: the attributes of a volume say what it is, and a driver that was not
// made for strangers mounts whatever they name.
func (g storage) checkDriver(ctx context.Context, tenant, driver string) error {
	drivers, err := g.allowed(ctx, tenant, allowances.CSIDrivers)
	if err != nil || drivers.Has(driver) {
		return err
	}
	return fmt.Errorf("a volume of the driver %s can be anybody's: claim one of a StorageClass, "+
		"or have an administrator of the cluster allow the driver by %s of the tenant", driver,
		allowances.Field(allowances.CSIDrivers))
}

// namedClasses are what a claim or a volume names of the cluster's storage. Which
// of the first two counts is upstream's to say, so each is judged.
type namedClasses struct{ annotated, named, attributes string }

func classesOf(annotations map[string]string, class, attributes *string) namedClasses {
	out := namedClasses{annotated: annotations[core.BetaStorageClassAnnotation]}
	if class != nil {
		out.named = *class
	}
	if attributes != nil {
		out.attributes = *attributes
	}
	return out
}

func classesOfClaim(c *core.PersistentVolumeClaim) namedClasses {
	return classesOf(c.Annotations, c.Spec.StorageClassName, c.Spec.VolumeAttributesClassName)
}

func classesOfVolume(v *core.PersistentVolume) namedClasses {
	return classesOf(v.Annotations, &v.Spec.StorageClassName, v.Spec.VolumeAttributesClassName)
}

// checkNamed keeps to the classes that are allowed.
func (g storage) checkNamed(ctx context.Context, tenant string, of namedClasses) error {
	allowed, err := g.allowed(ctx, tenant, allowances.StorageClasses)
	if err != nil || !allowed.Narrows() {
		return err
	}
	for _, name := range []string{of.annotated, of.named} {
		if name != "" && !allowed.Has(name) {
			return fmt.Errorf("the StorageClass %s is not one of this space's: %s", name, allowed)
		}
	}
	if name := of.attributes; name != "" && !allowed.Has(name) {
		return fmt.Errorf("the VolumeAttributesClass %s is not one of this space's classes: %s", name, allowed)
	}
	return nil
}

// checkClaim looks at the classes of a claim, whoever makes it: controllers make
// those of templates of StatefulSets and pods, and give a claim that waits the
// default. Old is nil for a new claim.
func (g storage) checkClaim(ctx context.Context, tenant string, claim, old *core.PersistentVolumeClaim) error {
	of := classesOfClaim(claim)
	if old != nil {
		if of == classesOfClaim(old) {
			return nil
		}
		return g.checkNamed(ctx, tenant, of)
	}
	allowed, err := g.allowed(ctx, tenant, allowances.StorageClasses)
	if err != nil {
		return err
	}
	_, annotated := claim.Annotations[core.BetaStorageClassAnnotation]
	if allowed.Narrows() && claim.Spec.StorageClassName == nil && !annotated {
		return errors.New("spec.storageClassName is missing, and there is no default: name one of " + allowed.String())
	}
	return g.checkNamed(ctx, tenant, of)
}

// checkVolume looks at a persistent volume. One that a tenant writes is what an
// inline volume is: whatever its source names is mounted by the node. Old is nil
// for a new volume, and upstream lets nobody change what a volume is.
func (g storage) checkVolume(
	ctx context.Context, tenant string, byTenant bool, volume, old *core.PersistentVolume,
) error {
	if byTenant && provisioned(volume) && (old == nil || !provisioned(old)) {
		return fmt.Errorf("the annotation %s is the cluster's: only what it provisions has it",
			localstorage.ProvisionedBy)
	}
	if of := classesOfVolume(volume); byTenant && (old == nil || of != classesOfVolume(old)) {
		if err := g.checkNamed(ctx, tenant, of); err != nil {
			return err
		}
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
		return g.checkDriver(ctx, tenant, csi.Driver)
	}
	for _, source := range allowances.SourcesOf(externalSource(volume)) {
		if !types.Has(source) {
			return fmt.Errorf("a volume of the type %s can be anybody's: claim one of a StorageClass, "+
				"or have an administrator of the cluster allow the type by %s of the tenant", source,
				allowances.Field(allowances.VolumeTypes))
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
