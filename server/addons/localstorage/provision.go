package localstorage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

var _ controller.Provisioner = &Storage{}
var _ controller.DeletionGuard = &Storage{}

// Provision implements controller.Provisioner. It makes the object only; the
// node makes the directory when it hears of it.
func (s *Storage) Provision(
	ctx context.Context, o controller.ProvisionOptions,
) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	if err := check(o); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	node, err := s.client.CoreV1().Nodes().Get(ctx, o.SelectedNodeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, controller.ProvisioningReschedule, fmt.Errorf("node %s is gone", o.SelectedNodeName)
	case err != nil:
		return nil, controller.ProvisioningNoChange, fmt.Errorf("looking for node %s: %w", o.SelectedNodeName, err)
	}
	// Upstream compares a volume's node by label only.
	if host := node.Labels[corev1.LabelHostname]; host != node.Name {
		return nil, controller.ProvisioningReschedule,
			fmt.Errorf("node %s has the label %s=%s; local volumes need it to be the node's name", node.Name,
				corev1.LabelHostname, host)
	}
	policy := corev1.PersistentVolumeReclaimDelete
	if o.StorageClass.ReclaimPolicy != nil {
		policy = *o.StorageClass.ReclaimPolicy
	}
	mode := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: policy,
			AccessModes:                   o.PVC.Spec.AccessModes,
			VolumeMode:                    &mode,
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: o.PVC.Spec.Resources.Requests[corev1.ResourceStorage],
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: filepath.Join(s.opts.Path, directory(o.PVName, o.PVC))},
			},
			NodeAffinity: nodeAffinity(node.Name),
		},
	}, controller.ProvisioningFinished, nil
}

// check refuses claims that a directory of one node cannot be.
func check(o controller.ProvisionOptions) error {
	switch {
	case o.StorageClass.VolumeBindingMode == nil ||
		*o.StorageClass.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer || o.SelectedNodeName == "":
		return fmt.Errorf("the StorageClass needs volumeBindingMode %s: a volume is made where the first pod runs",
			storagev1.VolumeBindingWaitForFirstConsumer)
	case o.PVC.Spec.Selector != nil:
		return errors.New("claims with a selector are for volumes that exist already")
	case o.PVC.Spec.DataSource != nil || o.PVC.Spec.DataSourceRef != nil:
		return errors.New("local volumes cannot be made of a data source: there are no snapshots or clones of them")
	}
	for _, mode := range o.PVC.Spec.AccessModes {
		if mode != corev1.ReadWriteOnce && mode != corev1.ReadWriteOncePod {
			return fmt.Errorf("access mode %s is not possible: a local volume is on one node (%s, %s)", mode,
				corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
		}
	}
	for name := range o.StorageClass.Parameters {
		return fmt.Errorf("the StorageClass has the parameter %q, but %s knows none", name, Provisioner)
	}
	return nil
}

// ShouldDelete implements controller.DeletionGuard: an object is let go when
// nothing is left of its volume.
func (s *Storage) ShouldDelete(ctx context.Context, volume *corev1.PersistentVolume) bool {
	if !Ours(volume) {
		return false
	}
	if volume.Annotations[State] == Removed {
		return true
	}
	node := nodeOf(volume)
	_, err := s.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return false
	}
	s.opts.Log.WithField("volume", volume.Name).
		Warnf("node %s is gone from the cluster; if its machine is not, %s is left there", node,
			volume.Spec.Local.Path)
	return true
}

// Delete implements controller.Provisioner. ShouldDelete has said that there is
// nothing left to do.
func (s *Storage) Delete(context.Context, *corev1.PersistentVolume) error { return nil }
