package filter

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"

	"github.com/a4s-io/a4s/internal/space"
	ourscheduler "github.com/a4s-io/a4s/server/controlplane/scheduler"
	"github.com/a4s-io/a4s/server/tenancy/nodes"
)

// Name is the plugin's name in configurations of the scheduler.
const Name = "TenantNodes"

// stateKey is where PreFilter leaves the rule of the tenant for Filter.
const stateKey fwk.StateKey = Name

// Plugin makes the plugin for one run of the scheduler, which begins when synced says that
// the tenants are known.
func Plugin(rules *nodes.Rules, synced cache.InformerSynced) ourscheduler.Plugin {
	return ourscheduler.Plugin{
		Name: Name,
		New:  func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &plugin{rules}, nil },
		Attach: func(ctx context.Context, sched *scheduler.Scheduler, _ informers.SharedInformerFactory) error {
			// All pods that wait are tried again, as the scheduler has no event for tenants.
			// Administrators of the cluster alone cause it.
			changed := fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All,
				CustomLabel: "TenantSchedulingChange"}
			rules.OnChange(ctx, func() {
				sched.SchedulingQueue.MoveAllToActiveOrBackoffQueue(klog.Background(), changed, nil, nil, nil)
			})
			if !cache.WaitForCacheSync(ctx.Done(), synced) {
				return fmt.Errorf("waiting for the tenants: %w", context.Cause(ctx))
			}
			return nil
		},
	}
}

// plugin implements the extension points.
type plugin struct{ rules *nodes.Rules }

var (
	_ fwk.PreFilterPlugin   = (*plugin)(nil)
	_ fwk.FilterPlugin      = (*plugin)(nil)
	_ fwk.EnqueueExtensions = (*plugin)(nil)
	_ fwk.SignPlugin        = (*plugin)(nil)
)

// Name implements fwk.Plugin.
func (*plugin) Name() string { return Name }

// state is a rule in the state of a scheduling cycle.
type state struct{ nodes.Rule }

// Clone implements fwk.StateData.
func (s state) Clone() fwk.StateData { return s }

// PreFilter finds the rule of the pod's tenant.
func (p *plugin) PreFilter(
	ctx context.Context, to fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	rule, err := p.rules.Of(ctx, tenantOf(pod))
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("finding the nodes of the tenant: %w", err))
	}
	if rule.Anywhere() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	to.Write(stateKey, state{rule})
	return nil, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin: other pods do not matter.
func (*plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter refuses nodes that do not run pods of the tenant.
func (*plugin) Filter(_ context.Context, from fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	data, err := from.Read(stateKey)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("reading what PreFilter found: %w", err))
	}
	rule, ok := data.(state)
	if !ok {
		return fwk.AsStatus(fmt.Errorf("PreFilter left a %T", data))
	}
	node := info.Node()
	if node == nil {
		return fwk.AsStatus(errors.New("the node is not known"))
	}
	if why := rule.Refusal(node.Labels); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) "+why)
	}
	return nil
}

// EventsToRegister implements fwk.EnqueueExtensions. A hint would have to find the rule, which
// can mean to ask the API server, while the queue is locked; labels of nodes change seldom.
func (*plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}},
	}, nil
}

// SignPod implements fwk.SignPlugin: pods of one tenant fit where others of it do.
func (*plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: "a4s.io/tenant", Value: tenantOf(pod)}}, nil
}

// tenantOf is whose a pod is: its namespace says it, which is the system's to give.
func tenantOf(pod *corev1.Pod) string { return space.OfNamespace(pod.Namespace) }
