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

	"github.com/a4s-io/a4s/server/tenancy/nodes"
)

// places judges which nodes run pods of a tenant where the plugin of the scheduler does not:
// a pod can name its node, and whoever may bind pods can bind it to any.
type places struct {
	rules  *nodes.Rules
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
	rule, err := p.rules.Of(ctx, tenant)
	if err != nil {
		return err
	}
	if key, asked, has, found := rule.Conflict(pod.Spec.NodeSelector); found {
		return fmt.Errorf("spec.nodeSelector asks for a node with %s=%s, and the nodes of this tenant have %s=%s: "+
			"leave it out", key, asked, key, has)
	}
	return nil
}

// checkNode refuses a node that does not run pods of the tenant. One that was made just now
// is looked for where it is stored.
func (p places) checkNode(ctx context.Context, tenant, name string) error {
	rule, err := p.rules.Of(ctx, tenant)
	if err != nil || rule.Anywhere() {
		return err
	}
	node, err := p.lister.Get(name)
	if apierrors.IsNotFound(err) {
		node, err = p.client.Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("the node %s cannot be compared with those of this tenant: %w", name, err)
	}
	if why := rule.Refusal(node.Labels); why != "" {
		return fmt.Errorf("the node %s %s", name, why)
	}
	return nil
}
