package admission

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	core "k8s.io/kubernetes/pkg/apis/core"
)

// places judges which nodes run pods of a tenant where the plugin of the scheduler does not:
// a pod can name its node, and whoever may bind pods can bind it to any.
type places struct {
	rules  Nodes
	lister corelisters.NodeLister
	client coreclient.NodeInterface
}

// checkPod looks at a new pod, or at one that is another than old. No level of security and
// no allowance lets it have a node that is not for its tenant. What the pod asks for besides
// is the scheduler's to compare; a label that can be on no node of the tenant is refused,
// because a pod that waits for ever says less.
func (p places) checkPod(ctx context.Context, tenant string, pod, old *core.Pod) error {
	if old == nil && pod.Spec.NodeName != "" {
		if err := p.checkNode(ctx, tenant, pod.Spec.NodeName); err != nil {
			return fmt.Errorf("spec.nodeName: %w", err)
		}
	}
	if len(pod.Spec.NodeSelector) == 0 || old != nil && maps.Equal(old.Spec.NodeSelector, pod.Spec.NodeSelector) {
		return nil
	}
	conflict, err := p.rules.Conflict(ctx, tenant, pod.Spec.NodeSelector)
	if err == nil && conflict != "" {
		return fmt.Errorf("spec.nodeSelector %s: leave it out", conflict)
	}
	return err
}

// checkNode refuses a node that does not run pods of the tenant. One that was made just now
// is looked for where it is stored.
func (p places) checkNode(ctx context.Context, tenant, name string) error {
	if anywhere, err := p.rules.Anywhere(ctx, tenant); err != nil || anywhere {
		return err
	}
	node, err := p.lister.Get(name)
	if apierrors.IsNotFound(err) {
		node, err = p.client.Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("the node %s cannot be compared with those of this tenant: %w", name, err)
	}
	why, err := p.rules.Refusal(ctx, tenant, node.Labels)
	if err == nil && why != "" {
		return fmt.Errorf("the node %s %s", name, why)
	}
	return err
}
