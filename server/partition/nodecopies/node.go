package nodecopies

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// errElsewhere is a name that somebody else has.
var errElsewhere = errors.New("the name is taken")

// nodes is how Nodes are copied.
func nodes() kind[*corev1.Node] {
	return kind[*corev1.Node]{
		resource: "nodes",
		watch: func(c kubernetes.Interface, selector string) cache.ListerWatcher {
			return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					o.LabelSelector = selector
					return c.CoreV1().Nodes().List(ctx, o)
				},
				WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
					o.LabelSelector = selector
					return c.CoreV1().Nodes().Watch(ctx, o)
				},
			}, c)
		},
		empty:  &corev1.Node{},
		want:   wantedNode,
		digest: nodeDigest,
		there: func(ctx context.Context, c kubernetes.Interface, name string) error {
			n, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			return original(n, "nodes")
		},
		write: writeNode,
		remove: func(ctx context.Context, c kubernetes.Interface, name string, o metav1.DeleteOptions) error {
			return c.CoreV1().Nodes().Delete(ctx, name, o)
		},
		sameUID: true,
	}
}

// original returns that something is not there if it is a copy.
func original(o metav1.Object, resource string) error {
	if _, copied := o.GetLabels()[Label]; copied {
		return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, o.GetName())
	}
	return nil
}

// wantedNode is the copy of a node of a resource partition.
func wantedNode(n *corev1.Node, partition string) *corev1.Node {
	out := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, UID: n.UID, CreationTimestamp: n.CreationTimestamp,
			Labels: labelled(n.Labels, partition), Annotations: maps.Clone(n.Annotations),
		},
		Spec: *n.Spec.DeepCopy(), Status: *n.Status.DeepCopy(),
	}
	// They are orders to our storage, and a kubelet may write any annotation.
	delete(out.Annotations, UIDAnnotation)
	delete(out.Annotations, CreatedAnnotation)
	out.Status.VolumesAttached = nil
	return out
}

// labelled are labels with that of a resource partition, whatever they said of it.
func labelled(labels map[string]string, partition string) map[string]string {
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	out[Label] = partition
	return out
}

// nodeDigest is of what a tenant partition has to know of a node: everything but when it
// was last told.
func nodeDigest(n *corev1.Node) (digest, error) {
	head, err := digestOf((&corev1.Node{ObjectMeta: material(n), Spec: n.Spec}).Marshal)
	if err != nil {
		return digest{}, err
	}
	status, err := statusDigest(&n.Status)
	if err != nil {
		return digest{}, err
	}
	return sha256.Sum256(append(head[:], status[:]...)), nil
}

// material is the part of metadata that is copied. What is empty is absent.
func material(o metav1.Object) metav1.ObjectMeta {
	var m metav1.ObjectMeta
	if labels := o.GetLabels(); len(labels) > 0 {
		m.Labels = labels
	}
	if annotations := o.GetAnnotations(); len(annotations) > 0 {
		m.Annotations = annotations
	}
	return m
}

func statusDigest(s *corev1.NodeStatus) (digest, error) {
	told := *s
	told.VolumesAttached = nil
	told.Conditions = make([]corev1.NodeCondition, len(s.Conditions))
	for i, c := range s.Conditions {
		c.LastHeartbeatTime = metav1.Time{}
		told.Conditions[i] = c
	}
	return digestOf(told.Marshal)
}

// digest stands for what is material of an object.
type digest [sha256.Size]byte

func digestOf(marshal func() ([]byte, error)) (digest, error) {
	data, err := marshal()
	if err != nil {
		return digest{}, fmt.Errorf("encoding what is copied: %w", err)
	}
	return sha256.Sum256(data), nil
}

// writeNode makes the copy what is wanted.
func writeNode(ctx context.Context, c kubernetes.Interface, want *corev1.Node) error {
	api := c.CoreV1().Nodes()
	have, err := api.Get(ctx, want.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return createNode(ctx, c, want)
	case err != nil:
		return err
	case have.Labels[Label] != want.Labels[Label]:
		return errElsewhere
	case have.UID != want.UID:
		if err := api.Delete(ctx, have.Name, exactly(have)); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return createNode(ctx, c, want)
	}
	next := have.DeepCopy()
	next.Labels, next.Annotations, next.Spec = want.Labels, want.Annotations, want.Spec
	if differ, err := different(&corev1.Node{ObjectMeta: material(have), Spec: have.Spec},
		&corev1.Node{ObjectMeta: material(next), Spec: next.Spec}); err != nil {
		return err
	} else if differ {
		if have, err = api.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	is, err := statusDigest(&have.Status)
	if err != nil {
		return err
	}
	if should, err := statusDigest(&want.Status); err != nil || should == is {
		return err
	}
	next = have.DeepCopy()
	next.Status = *want.Status.DeepCopy()
	next.Status.VolumesAttached = have.Status.VolumesAttached
	_, err = api.UpdateStatus(ctx, next, metav1.UpdateOptions{})
	return err
}

func createNode(ctx context.Context, c kubernetes.Interface, want *corev1.Node) error {
	n := want.DeepCopy()
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[UIDAnnotation] = string(n.UID)
	n.Annotations[CreatedAnnotation] = n.CreationTimestamp.UTC().Format(time.RFC3339)
	made, err := c.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	if err == nil && made.UID != want.UID {
		return fmt.Errorf("the copy has UID %s in place of %s: the API server does not know the importer",
			made.UID, want.UID)
	}
	return err
}

// exactly deletes this object and none that came after it.
func exactly(o metav1.Object) metav1.DeleteOptions {
	uid := o.GetUID()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

func different(a, b interface{ Marshal() ([]byte, error) }) (bool, error) {
	first, err := digestOf(a.Marshal)
	if err != nil {
		return false, err
	}
	second, err := digestOf(b.Marshal)
	return first != second, err
}
