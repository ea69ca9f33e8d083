package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// places judges which nodes run pods of a tenant where the plugin of the scheduler does not:
// a pod can name its node, and whoever may bind pods can bind it to any.
type places struct {
	rules  Nodes
	synced cache.InformerSynced // says that the rules are complete
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
	switch {
	case err != nil:
		return unknownNodes(err)
	case conflict != "":
		return fmt.Errorf("spec.nodeSelector %s: leave it out", conflict)
	}
	return nil
}

// checkNode refuses a node that does not run pods of the tenant. One that was made just now
// is looked for where it is stored.
func (p places) checkNode(ctx context.Context, tenant, name string) error {
	if space.IsSystem(tenant) {
		return nil
	}
	if err := p.wait(ctx); err != nil {
		return err
	}
	anywhere, err := p.rules.Anywhere(ctx, tenant)
	switch {
	case err != nil:
		return unknownNodes(err)
	case anywhere:
		return nil
	}
	node, err := p.lister.Get(name)
	if apierrors.IsNotFound(err) {
		node, err = p.client.Get(ctx, name, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the node %s cannot be compared with those of this tenant: %w", name, err)
	case err != nil:
		return unknownNodes(err)
	}
	why, err := p.rules.Refusal(ctx, tenant, node.Labels)
	switch {
	case err != nil:
		return unknownNodes(err)
	case why != "":
		return fmt.Errorf("the node %s %s", name, why)
	}
	return nil
}

// errNodesUnknown is not for ever: who tries again may get another answer.
var errNodesUnknown = errors.New("it is not known yet which nodes run pods of this tenant")

func unknownNodes(why error) error { return fmt.Errorf("%w: %w", errNodesUnknown, why) }

// wait returns when the tenants are known that keep nodes. The API serves before, and nobody
// would keep any.
func (p places) wait(ctx context.Context) error {
	if p.synced() {
		return nil
	}
	known := false
	fairqueue.Of(ctx).Wait(func() {
		ctx, cancel := context.WithTimeout(ctx, readyWithin)
		defer cancel()
		known = cache.WaitForCacheSync(ctx.Done(), p.synced)
	})
	if !known {
		return errNodesUnknown
	}
	return nil
}
