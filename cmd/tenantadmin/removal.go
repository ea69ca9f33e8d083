package tenantadmin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// Removal is of a partition of the cluster.
type Removal struct {
	admin *Admin
	name  string
}

// NewRemoval is about a partition, with the rights of an Admin.
func NewRemoval(a *Admin, name string) *Removal { return &Removal{a, name} }

// PodsOn counts the pods of other partitions that the nodes of a partition run, and the
// tenants that have them. Those of the system's DaemonSets and of files do not count.
func (r *Removal) PodsOn(ctx context.Context) (pods, tenants int, err error) {
	n, err := r.admin.Nodes(ctx)
	if err != nil {
		return 0, 0, err
	}
	having := map[string]bool{}
	for _, p := range n.tenants {
		if p.name == r.name {
			continue // it goes with its tenants, of which it has none then
		}
		err := p.podsOn(ctx, r.name, func(pod *corev1.Pod) {
			pods++
			if tenant, _ := space.SplitNamespace(pod.Namespace); !space.IsSystem(tenant) {
				having[tenant] = true
			}
		})
		if err != nil {
			return pods, len(having), fmt.Errorf("listing the pods%s: %w", p.where(), err)
		}
	}
	return pods, len(having), nil
}

// podsOn goes through the pods that a partition has on the nodes of another one.
func (p server) podsOn(ctx context.Context, of string, do func(*corev1.Pod)) error {
	nodes, err := p.client.CoreV1().Nodes().List(ctx,
		metav1.ListOptions{LabelSelector: partitionapi.ResourcePartitionLabel + "=" + of})
	if err != nil {
		return err
	}
	for _, n := range nodes.Items {
		for o := (metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.Name, Limit: podsAtATime}); ; {
			page, err := p.client.CoreV1().Pods("").List(ctx, o)
			if err != nil {
				return err
			}
			for i := range page.Items {
				if pod := &page.Items[i]; !stays(pod) {
					do(pod)
				}
			}
			if o.Continue = page.Continue; o.Continue == "" {
				break
			}
		}
	}
	return nil
}

// GiveUp forgets the tenants of a partition that is lost for good, so that it can be removed
// and their names are free. say learns of each. A partition that answers is ErrAnswers.
func (r *Removal) GiveUp(ctx context.Context, say func(tenant string)) error {
	partitions, err := partitionapi.NewPartitionClient(r.admin.cfg, nil)
	if err != nil {
		return err
	}
	if _, err := partitions.Get(ctx, r.name, metav1.GetOptions{}); err != nil {
		return err
	}
	n, err := r.admin.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, p := range append(n.tenants, n.resources...) {
		if p.name == r.name && p.answers(ctx) {
			return ErrAnswers
		}
	}
	var lost []partitionapi.TenantPlacement
	for o := (metav1.ListOptions{Limit: podsAtATime}); ; {
		page, err := r.admin.placements.List(ctx, o)
		if err != nil {
			return fmt.Errorf("reading where tenants are: %w", err)
		}
		for i := range page.Items {
			if page.Items[i].Spec.Partition == r.name {
				lost = append(lost, page.Items[i])
			}
		}
		if o.Continue = page.Continue; o.Continue == "" {
			break
		}
	}
	for i := range lost {
		err := r.admin.placements.Delete(ctx, lost[i].Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(lost[i].UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("giving up tenant %s: %w", lost[i].Name, err)
		}
		say(lost[i].Name)
	}
	return nil
}
