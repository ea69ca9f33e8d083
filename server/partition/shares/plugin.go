package shares

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
)

// commitTimeout is for how long a pod waits for a resource partition.
const commitTimeout = 2 * time.Second

// plugin implements the extension points.
type plugin struct{ *shares }

var (
	_ fwk.FilterPlugin      = (*plugin)(nil)
	_ fwk.ReservePlugin     = (*plugin)(nil)
	_ fwk.PreBindPlugin     = (*plugin)(nil)
	_ fwk.BindPlugin        = (*plugin)(nil)
	_ fwk.EnqueueExtensions = (*plugin)(nil)
	_ fwk.SignPlugin        = (*plugin)(nil)
)

// Name implements fwk.Plugin.
func (*plugin) Name() string { return Name }

// Filter refuses nodes that a pod cannot be committed on, and those that are full of pods:
// the one that stands for others counts once, whatever it stands for. That the resources
// fit, upstream sees by itself.
func (p *plugin) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	node := info.Node()
	rp := p.partitionOf(node)
	if rp == nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			"node(s) were of a resource partition that is not known")
	}
	if !rp.answers() {
		rp.refused.Store(true)
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) were of resource partition %s, which does not answer", rp.name))
	}
	p.mu.RLock()
	others, has := p.others[node.Name]
	p.mu.RUnlock()
	if others.awaited != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			"node(s) waited for tenant partitions to say what they have there")
	}
	pods := int64(len(info.GetPods())) + others.share.Pods
	if has && others.pod != nil {
		pods-- // the one that stands for them
	}
	if most := int64(info.GetAllocatable().GetAllowedPodNumber()); pods+1 > most {
		return fwk.NewStatus(fwk.Unschedulable, "Too many pods")
	}
	return nil
}

// Reserve takes note of the pod.
func (p *plugin) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	share := shareOf(pod)
	p.mu.Lock()
	defer p.mu.Unlock()
	if was := p.pods[pod.UID]; was == nil || !was.bound {
		p.put(pod.UID, &podShare{node: node, share: share})
	}
	return nil
}

// Unreserve forgets it.
func (p *plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) {
	p.mu.Lock()
	was := p.pods[pod.UID]
	if was != nil && !was.bound {
		p.drop(pod.UID)
	}
	p.mu.Unlock()
	if was != nil && was.counted {
		p.account(node)
	}
}

// PreBindPreFlight implements fwk.PreBindPlugin. Upstream writes the name of the node into
// each pod for which PreBind has work to do, for autoscalers. That is one more write and
// event of each pod, so pods are committed in Bind where that is possible.
func (p *plugin) PreBindPreFlight(
	context.Context, fwk.CycleState, *corev1.Pod, string,
) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if p.bindsFirst {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return nil, nil
}

// PreBind commits the pod if something may bind it before Bind of this plugin is called. It
// is called in any case when upstream's gate NominatedNodeNameForExpectation is off.
func (p *plugin) PreBind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	if p.bindsFirst {
		return nil
	}
	return p.commitPod(ctx, pod, node)
}

// Bind commits the pod, and leaves it to others to bind it.
func (p *plugin) Bind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	if p.bindsFirst {
		if status := p.commitPod(ctx, pod, node); !status.IsSuccess() {
			return status
		}
	}
	return fwk.NewStatus(fwk.Skip)
}

// bindsFirst reports whether Bind of this plugin comes before whatever binds a pod. A
// configuration of the user's may have an extender that binds, or another order.
func bindsFirst(sched *scheduler.Scheduler) bool {
	for _, profile := range sched.Profiles {
		binders := profile.ListPlugins().Bind.Enabled
		if len(binders) == 0 || binders[0].Name != Name {
			return false
		}
		if slices.ContainsFunc(profile.Extenders(), fwk.Extender.IsBinder) {
			return false
		}
	}
	return true
}

// commitPod commits a pod. One that is refused is tried again after its backoff, by when
// the cache knows what others have.
func (p *plugin) commitPod(ctx context.Context, pod *corev1.Pod, node string) *fwk.Status {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	select {
	case <-p.started:
	case <-ctx.Done():
		return fwk.AsStatus(errors.New("the pods of this partition are not known yet"))
	}
	p.mu.RLock()
	own := p.pods[pod.UID]
	p.mu.RUnlock()
	if own == nil || own.node != node {
		return fwk.AsStatus(fmt.Errorf("pod %s/%s was not reserved on node %s", pod.Namespace, pod.Name, node))
	}
	began := time.Now()
	err := p.commit(ctx, node, own)
	p.o.Stats.committed(time.Since(began))
	if full := (*fullError)(nil); errors.As(err, &full) {
		p.o.Stats.Refused.Add(1)
		return fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("committing the pod to node %s: %w", node, err))
	}
	return nil
}

// EventsToRegister implements fwk.EnqueueExtensions. What others have less, and resource
// partitions that answer again, look to the scheduler like pods that went.
func (*plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}},
		{Event: fwk.ClusterEvent{Resource: fwk.Node,
			ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeLabel}},
	}, nil
}

// SignPod implements fwk.SignPlugin: Filter looks at nothing of the pod.
func (*plugin) SignPod(context.Context, *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}
