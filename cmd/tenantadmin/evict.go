package tenantadmin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// ErrAnswers is a partition whose nodes can be drained in order.
var ErrAnswers = errors.New("the partition answers")

// ErrNoNodes is a partition that has none.
var ErrNoNodes = errors.New("the partition has no nodes")

// Evicted is what was evicted in a tenant partition.
type Evicted struct {
	Partition  string
	Nodes      int
	Pods, Kept int // Kept are of DaemonSets and of files: no other node would run them
}

// EvictPartition deletes the pods of all tenant partitions on the nodes of a resource
// partition, without waiting for these. A partition that answers is left alone unless it
// is forced. What was done is returned with an error, too.
func (a *Admin) EvictPartition(ctx context.Context, name string, force bool) ([]Evicted, error) {
	partitions, err := partitionapi.NewPartitionClient(a.cfg, nil)
	if err != nil {
		return nil, err
	}
	of, err := partitions.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if !of.Has(partitionapi.RoleResource) {
		return nil, ErrNoNodes
	}
	n, err := a.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(n.resources, func(p server) bool { return p.name == name })
	if i < 0 {
		return nil, ErrNoNodes // it has left meanwhile
	}
	silent := n.resources[i]
	if !force && silent.answers(ctx) {
		return nil, ErrAnswers
	}
	var out []Evicted
	var errs []error
	for _, p := range n.tenants {
		if p.name == name && !silent.answers(ctx) {
			continue // its own pods are as silent as it is
		}
		done, err := p.evict(ctx, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("partition %s: %w", p.name, err))
		}
		out = append(out, done)
	}
	return out, errors.Join(errs...)
}

// answers reports whether the API of the partition does.
func (p server) answers(ctx context.Context) bool {
	return p.client.Discovery().RESTClient().Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error() == nil
}

// evict deletes what the partition has on the nodes of another one, or on its own.
func (p server) evict(ctx context.Context, of string) (Evicted, error) {
	done := Evicted{Partition: p.name}
	selector := partitionapi.ResourcePartitionLabel + "=" + of
	if p.name == of {
		selector = "!" + partitionapi.ResourcePartitionLabel
	}
	nodes, err := p.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return done, err
	}
	done.Nodes = len(nodes.Items)
	for _, n := range nodes.Items {
		pods, err := p.client.CoreV1().Pods("").
			List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.Name})
		if err != nil {
			return done, err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if stays(pod) {
				done.Kept++
				continue
			}
			// The kubelet that would confirm a graceful end cannot.
			now := int64(0)
			err := p.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
				GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
			})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return done, fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			done.Pods++
		}
	}
	return done, nil
}

// stays reports whether a pod belongs to its node.
func stays(p *corev1.Pod) bool {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror || slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "DaemonSet" && o.Controller != nil && *o.Controller
	})
}
