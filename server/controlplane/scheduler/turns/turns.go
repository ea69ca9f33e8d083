package turns

import (
	"context"
	"fmt"
	"iter"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/a4s-io/a4s/internal/space"
)

// Name is that of the plugin, in configurations too.
const Name = "TenantTurns"

// fewTenants is how many may be kept without looking for those that need not be.
const fewTenants = 64

// Plugin orders the queue.
type Plugin struct {
	mu sync.Mutex
	// now is the tag of the pod that was scheduled last, the greatest of them.
	now int64
	// tags are those of pods that wait, last the greatest of each tenant.
	tags map[types.UID]int64
	last map[string]int64
	// prune is how many tenants last has when it is gone through again.
	prune int
}

var (
	_ fwk.QueueSortPlugin   = (*Plugin)(nil)
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// Factory makes the plugin, the same for all profiles of a scheduler: they share the queue.
func Factory() frameworkruntime.PluginFactory {
	var p *Plugin
	return func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		if p != nil {
			return p, nil
		}
		made := newPlugin()
		_, err := h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(
			cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
				if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = gone.Obj
				}
				if pod, ok := obj.(*corev1.Pod); ok {
					made.deleted(pod)
				}
			}})
		if err != nil {
			return nil, fmt.Errorf("watching the pods: %w", err)
		}
		p = made
		return p, nil
	}
}

func newPlugin() *Plugin {
	return &Plugin{tags: map[types.UID]int64{}, last: map[string]int64{}, prune: fewTenants}
}

// Name implements fwk.Plugin.
func (*Plugin) Name() string { return Name }

// Less implements fwk.QueueSortPlugin.
func (p *Plugin) Less(a, b fwk.QueuedEntityInfo) bool {
	if x, y := a.GetPriority(), b.GetPriority(); x != y {
		return x > y
	}
	earlier := a.GetTimestamp().Before(b.GetTimestamp())
	p.mu.Lock()
	defer p.mu.Unlock()
	if !earlier { // if neither has a tag, the one that came first gets the first
		p.tag(b)
	}
	if x, y := p.tag(a), p.tag(b); x != y {
		return x < y
	}
	return earlier
}

// tag is that of a pod, or of the first pod of a group, from now on.
func (p *Plugin) tag(e fwk.QueuedEntityInfo) int64 {
	pod := firstPod(e)
	if pod == nil {
		return p.now
	}
	tag, ok := p.tags[pod.UID]
	if !ok {
		tenant, _ := space.SplitNamespace(pod.Namespace)
		tag = max(p.now, p.last[tenant]) + 1
		p.tags[pod.UID], p.last[tenant] = tag, tag
		p.forget()
	}
	return tag
}

// firstPod is a pod, or the first one of a group. Upstream's kinds of entities have it under
// one name and, by their version, in one of two forms.
func firstPod(e fwk.QueuedEntityInfo) *corev1.Pod {
	var pod *corev1.Pod
	switch pods := e.(type) {
	case interface {
		ForEachPodInfo(func(*framework.QueuedPodInfo) bool) // before 1.38
	}:
		pods.ForEachPodInfo(func(i *framework.QueuedPodInfo) bool {
			pod = i.Pod
			return false
		})
	case interface {
		ForEachPodInfo() iter.Seq[*framework.QueuedPodInfo]
	}:
		for i := range pods.ForEachPodInfo() {
			return i.Pod
		}
	}
	return pod
}

// forget drops the tenants that have no turn ahead of the others, once there are twice as
// many as were left the last time.
func (p *Plugin) forget() {
	if len(p.last) < p.prune {
		return
	}
	for tenant, tag := range p.last {
		if tag <= p.now {
			delete(p.last, tenant)
		}
	}
	p.prune = max(fewTenants, 2*len(p.last))
}

// PreFilter implements fwk.PreFilterPlugin: the pod has its turn. If it finds no node and
// waits again, that is another one.
func (p *Plugin) PreFilter(
	_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if tag, ok := p.tags[pod.UID]; ok {
		delete(p.tags, pod.UID)
		p.now = max(p.now, tag)
	}
	return nil, fwk.NewStatus(fwk.Skip)
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// deleted gives the turn of a pod that waited back to its tenant.
func (p *Plugin) deleted(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.tags[pod.UID]; !ok {
		return
	}
	delete(p.tags, pod.UID)
	if tenant, _ := space.SplitNamespace(pod.Namespace); p.last[tenant] > p.now {
		p.last[tenant]--
	}
}

// EventsToRegister implements fwk.EnqueueExtensions: the plugin turns no pod away.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) { return nil, nil }

// SignPod implements fwk.SignPlugin: nodes do not matter to the plugin.
func (*Plugin) SignPod(context.Context, *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return nil, nil
}
