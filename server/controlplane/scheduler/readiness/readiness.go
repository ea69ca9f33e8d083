package readiness

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/a4s-io/a4s/internal/workload"
)

// Name is the plugin's name in configurations of the scheduler.
const Name = "NodeRuntimeReadiness"

// runtimeClasses is the name that the scheduler's events have for them.
const runtimeClasses fwk.EventResource = "runtimeclasses.v1.node.k8s.io"

// stateKey is where PreFilter leaves the type of the pod for Filter.
const stateKey fwk.StateKey = Name

// Plugin implements the extension points.
type Plugin struct {
	// cached and live look a RuntimeClass up.
	cached func(name string) (*nodev1.RuntimeClass, error)
	live   func(ctx context.Context, name string) (*nodev1.RuntimeClass, error)
}

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// New is the factory for the scheduler's registry.
func New(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	classes := h.ClientSet().NodeV1().RuntimeClasses()
	return &Plugin{
		cached: h.SharedInformerFactory().Node().V1().RuntimeClasses().Lister().Get,
		live: func(ctx context.Context, name string) (*nodev1.RuntimeClass, error) {
			return classes.Get(ctx, name, metav1.GetOptions{})
		},
	}, nil
}

// Name implements fwk.Plugin.
func (*Plugin) Name() string { return Name }

// typeState is a workload type in the state of a scheduling cycle.
type typeState workload.Type

// Clone implements fwk.StateData.
func (s typeState) Clone() fwk.StateData { return s }

// errUnresolvable is that of a pod which no node can take as it is.
var errUnresolvable = errors.New("cannot tell the pod's type of workload")

// typeOf returns the type of a pod, whose class find looks up.
func typeOf(pod *corev1.Pod, find func(name string) (*nodev1.RuntimeClass, error)) (workload.Type, error) {
	var class *nodev1.RuntimeClass
	if name := pod.Spec.RuntimeClassName; name != nil {
		var err error
		if class, err = find(*name); err != nil {
			return "", fmt.Errorf("looking for runtime class %q: %w", *name, err)
		}
	}
	t, err := workload.OfPod(pod, class)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errUnresolvable, err)
	}
	return t, nil
}

// PreFilter finds out which type the pod is of.
func (p *Plugin) PreFilter(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	t, err := typeOf(pod, func(name string) (*nodev1.RuntimeClass, error) {
		class, err := p.cached(name)
		if apierrors.IsNotFound(err) {
			// Events about classes come by another informer, which may be
			// ahead: a pod that was refused now would have had its event.
			return p.live(ctx, name)
		}
		return class, err
	})
	switch {
	case errors.Is(err, errUnresolvable), apierrors.IsNotFound(err):
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	case err != nil:
		return nil, fwk.AsStatus(err)
	}
	state.Write(stateKey, typeState(t))
	return nil, nil
}

// PreFilterExtensions implements fwk.PreFilterPlugin: other pods do not matter.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter refuses nodes without a ready runtime. That is nothing which could be
// gained by evicting other pods.
func (*Plugin) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	data, err := state.Read(stateKey)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("reading what PreFilter found: %w", err))
	}
	t, ok := data.(typeState)
	if !ok {
		return fwk.AsStatus(fmt.Errorf("PreFilter left a %T", data))
	}
	if reason := notReadyReason(workload.Type(t), pod, info.Node()); reason != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) had "+reason)
	}
	return nil
}

// notReadyReason is why pod, which is of type t, cannot run on node. The scheduler
// counts the nodes that have the same one.
func notReadyReason(t workload.Type, pod *corev1.Pod, node *corev1.Node) string {
	primary := workload.PrimaryOf(node)
	if missing := workload.NotReadyReason(t, pod.Spec.HostNetwork, primary, node.Status.Conditions); missing != "" {
		return missing
	}
	if t == primary {
		// Taints keep pods from nodes that are not ready, and those that
		// tolerate them are there to make the node ready.
		return ""
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return ""
		}
	}
	return fmt.Sprintf("not become ready, as a pod of type %s needs it", t)
}

// SignPod implements fwk.SignPlugin: what Filter looks at in a pod.
func (*Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{
		{Key: "v1.Pod.Spec.RuntimeClassName", Value: pod.Spec.RuntimeClassName},
		{Key: "v1.Pod.Annotations." + workload.Annotation, Value: pod.Annotations[workload.Annotation]},
		{Key: "v1.Pod.Spec.HostNetwork", Value: pod.Spec.HostNetwork},
	}, nil
}
