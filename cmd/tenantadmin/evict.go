package tenantadmin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
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
	e := eviction{a.cfg, name}
	if !force && e.answers(ctx) {
		return nil, ErrAnswers
	}
	list, err := partitions.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []Evicted
	var errs []error
	for i := range list.Items {
		p := &list.Items[i]
		if !p.Has(partitionapi.RoleTenant) || p.Name == name && !e.answers(ctx) {
			continue // its own pods are as silent as it is
		}
		done, err := e.evict(ctx, p.Name)
		if err != nil {
			errs = append(errs, fmt.Errorf("partition %s: %w", p.Name, err))
		}
		out = append(out, done)
	}
	return out, errors.Join(errs...)
}

// eviction is that of the nodes of one partition.
type eviction struct {
	cfg  *rest.Config
	name string
}

// within is a client of a partition.
func (e eviction) within(partition string) (kubernetes.Interface, error) {
	cfg := rest.CopyConfig(e.cfg)
	cfg.Host += "/partitions/" + partition
	return kubernetes.NewForConfig(cfg)
}

// answers reports whether the API of the partition does.
func (e eviction) answers(ctx context.Context) bool {
	c, err := e.within(e.name)
	if err != nil {
		return false
	}
	return c.Discovery().RESTClient().Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error() == nil
}

// evict deletes what one tenant partition has there.
func (e eviction) evict(ctx context.Context, at string) (Evicted, error) {
	done := Evicted{Partition: at}
	c, err := e.within(at)
	if err != nil {
		return done, err
	}
	selector := nodecopies.Label + "=" + e.name
	if at == e.name {
		selector = "!" + nodecopies.Label
	}
	nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return done, err
	}
	done.Nodes = len(nodes.Items)
	for _, n := range nodes.Items {
		pods, err := c.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.Name})
		if err != nil {
			return done, err
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if stays(p) {
				done.Kept++
				continue
			}
			// The kubelet that would confirm a graceful end cannot.
			now := int64(0)
			err := c.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now,
				Preconditions: &metav1.Preconditions{UID: &p.UID}})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return done, fmt.Errorf("deleting pod %s/%s: %w", p.Namespace, p.Name, err)
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
