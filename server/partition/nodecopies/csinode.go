package nodecopies

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// csiNodes is how CSINodes are copied.
func csiNodes() kind[*storagev1.CSINode] {
	return kind[*storagev1.CSINode]{
		resource: "csinodes",
		watch: func(c kubernetes.Interface, selector string) cache.ListerWatcher {
			return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					o.LabelSelector = selector
					return c.StorageV1().CSINodes().List(ctx, o)
				},
				WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
					o.LabelSelector = selector
					return c.StorageV1().CSINodes().Watch(ctx, o)
				},
			}, c)
		},
		empty: &storagev1.CSINode{},
		want: func(n *storagev1.CSINode, partition string) *storagev1.CSINode {
			return &storagev1.CSINode{
				ObjectMeta: metav1.ObjectMeta{
					Name: n.Name, UID: n.UID, Labels: labelled(n.Labels, partition),
					Annotations: maps.Clone(n.Annotations),
					// They are the Node, whose copy has the same UID.
					OwnerReferences: n.OwnerReferences,
				},
				Spec: *n.Spec.DeepCopy(),
			}
		},
		digest: csiNodeDigest,
		there: func(ctx context.Context, c kubernetes.Interface, name string) error {
			n, err := c.StorageV1().CSINodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			return original(n, "csinodes")
		},
		write: writeCSINode,
		remove: func(ctx context.Context, c kubernetes.Interface, name string, o metav1.DeleteOptions) error {
			return c.StorageV1().CSINodes().Delete(ctx, name, o)
		},
	}
}

func csiNodeDigest(n *storagev1.CSINode) (digest, error) {
	m := material(n)
	if len(n.OwnerReferences) > 0 {
		m.OwnerReferences = n.OwnerReferences
	}
	data, err := (&storagev1.CSINode{ObjectMeta: m, Spec: n.Spec}).Marshal()
	if err != nil {
		return digest{}, fmt.Errorf("encoding what is copied: %w", err)
	}
	return sha256.Sum256(data), nil
}

// writeCSINode makes the copy what is wanted, once there is the copy of the Node that
// owns it: the garbage collector deletes what has an owner that is not there.
func writeCSINode(ctx context.Context, c kubernetes.Interface, want *storagev1.CSINode) error {
	owner, err := c.CoreV1().Nodes().Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("looking for the node of a CSINode: %w", err)
	}
	if owner.Labels[Label] != want.Labels[Label] {
		return errElsewhere
	}
	for _, o := range want.OwnerReferences {
		if o.Kind != "Node" || o.Name != want.Name || o.UID != owner.UID {
			return fmt.Errorf("the CSINode of another node %s, with UID %s", o.Name, o.UID)
		}
	}
	api := c.StorageV1().CSINodes()
	have, err := api.Get(ctx, want.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err := api.Create(ctx, want, metav1.CreateOptions{})
		return err
	case err != nil:
		return err
	case have.Labels[Label] != want.Labels[Label]:
		return errElsewhere
	}
	next := have.DeepCopy()
	next.Labels, next.Annotations, next.Spec = want.Labels, want.Annotations, want.Spec
	next.OwnerReferences = want.OwnerReferences
	_, err = api.Update(ctx, next, metav1.UpdateOptions{})
	if apierrors.IsInvalid(err) {
		// A driver that went and came again is another one, and cannot become it.
		if err := api.Delete(ctx, have.Name, exactly(have)); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		_, err = api.Create(ctx, want, metav1.CreateOptions{})
	}
	return err
}
