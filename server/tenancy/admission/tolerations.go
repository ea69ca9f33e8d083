package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apiserver/pkg/warning"
	core "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	"k8s.io/kubernetes/pkg/apis/node"
	nodeconvert "k8s.io/kubernetes/pkg/apis/node/v1"
	"k8s.io/pod-security-admission/api"

	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// protectedTaints keep the pods of tenants away from nodes: a toleration of them
// is for pods of the cluster's own.
func protectedTaints() []string {
	return []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "CriticalAddonsOnly"}
}

// conditionTaints say how a node is. That a node is cordoned, out of service or not
// yet set up is not among them: somebody has decided it.
func conditionTaints() []string {
	return []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeMemoryPressure,
		corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeNetworkUnavailable}
}

// tolerations judges which nodes pods go to past their taints. The classes of
// runtimes have some of their own.
type tolerations runtimes

// taints are those that a pod may tolerate.
type taints struct {
	list allowances.List
	// given are what the pod's RuntimeClass and the Tenant add.
	given []core.Toleration
	// resources are those that a pod asks for: nodes that have them are often kept,
	// by a taint of the same name, for pods that need them.
	resources []string
}

func (g tolerations) taints(ctx context.Context, tenant string, pod *core.Pod) (taints, error) {
	list, err := g.allowed(ctx, tenant, allowances.Tolerations)
	if err != nil {
		return taints{}, err
	}
	class, err := g.classes.of(ctx, pod)
	if err != nil {
		return taints{}, err
	}
	out := taints{list: list}
	if out.given, err = tolerationsOf(class); err != nil {
		return taints{}, err
	}
	own, err := g.tolerations(ctx, tenant)
	if err != nil {
		return taints{}, err
	}
	out.given = append(out.given, own...)
	for _, containers := range [][]core.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for name, n := range containers[i].Resources.Requests {
				if helper.IsExtendedResourceName(name) && n.Sign() > 0 {
					out.resources = append(out.resources, string(name))
				}
			}
		}
	}
	return out, nil
}

func tolerationsOf(class *nodev1.RuntimeClass) ([]core.Toleration, error) {
	if class == nil || class.Scheduling == nil {
		return nil, nil
	}
	out, err := coreTolerations(class.Scheduling.Tolerations)
	if err != nil {
		return nil, fmt.Errorf("reading the RuntimeClass %s: %w", class.Name, err)
	}
	return out, nil
}

// coreTolerations shares nothing with what it is given, which is a cache's.
func coreTolerations(in []corev1.Toleration) ([]core.Toleration, error) {
	of, out := &nodev1.Scheduling{Tolerations: in}, node.Scheduling{}
	err := nodeconvert.Convert_v1_Scheduling_To_node_Scheduling(of.DeepCopy(), &out, nil)
	return out.Tolerations, err
}

// has reports whether the pod may have a toleration.
func (t taints) has(toleration core.Toleration) bool {
	// An empty key is in no list, but "*" stands for it, too.
	return t.list.Has(toleration.Key) || slices.Contains(conditionTaints(), toleration.Key) ||
		slices.Contains(t.resources, toleration.Key) || hasToleration(t.given, toleration)
}

func hasToleration(all []core.Toleration, one core.Toleration) bool {
	return slices.ContainsFunc(all, func(t core.Toleration) bool { return sameToleration(t, one) })
}

func sameToleration(a, b core.Toleration) bool {
	seconds := a.TolerationSeconds == b.TolerationSeconds ||
		a.TolerationSeconds != nil && b.TolerationSeconds != nil && *a.TolerationSeconds == *b.TolerationSeconds
	a.TolerationSeconds, b.TolerationSeconds = nil, nil
	return seconds && a == b
}

// protects reports whether a toleration is of nodes that are the cluster's own, or
// of all.
func protects(t core.Toleration) bool {
	return t.Key == "" || slices.Contains(protectedTaints(), t.Key)
}

// addsTolerations reports whether a pod tolerates something that it did not before.
// What it had cannot be taken away.
func addsTolerations(pod, old *core.Pod) bool {
	return old == nil && len(pod.Spec.Tolerations) > 0 || old != nil &&
		slices.ContainsFunc(pod.Spec.Tolerations, func(t core.Toleration) bool { return !hadToleration(old, t) })
}

func hadToleration(old *core.Pod, t core.Toleration) bool {
	return old != nil && hasToleration(old.Spec.Tolerations, t)
}

// drop leaves tolerations out that a pod may not have. Many programs
// bring some for nodes that there may be, and run well without them; one that needs
// them waits, as on a cluster without such nodes. What is the cluster's own is
// refused instead. Old is nil for a new pod.
func (g tolerations) drop(ctx context.Context, tenant string, pod, old *core.Pod) error {
	if !addsTolerations(pod, old) {
		return nil
	}
	if level, err := g.level(ctx, tenant); err != nil || level == api.LevelPrivileged {
		return err
	}
	may, err := g.taints(ctx, tenant, pod)
	if err != nil {
		return err
	}
	var kept []core.Toleration
	for i, t := range pod.Spec.Tolerations {
		if may.has(t) || protects(t) || hadToleration(old, t) {
			kept = append(kept, t)
			continue
		}
		warning.AddWarning(ctx, "", fmt.Sprintf("spec.tolerations[%d] is left out: an administrator of the cluster "+
			"allows the key %s by %s of the tenant", i, t.Key, allowances.Field(allowances.Tolerations)))
	}
	pod.Spec.Tolerations = kept
	return nil
}

// check keeps pods off nodes that are not for them. By a taint of any
// key an administrator keeps a node for somebody, or for nobody.
func (g tolerations) check(ctx context.Context, tenant string, pod, old *core.Pod) error {
	if !addsTolerations(pod, old) {
		return nil
	}
	may, err := g.taints(ctx, tenant, pod)
	if err != nil {
		return err
	}
	for i, t := range pod.Spec.Tolerations {
		switch {
		case may.has(t) || hadToleration(old, t):
		case t.Key == "":
			return fmt.Errorf("spec.tolerations[%d] tolerates every taint: name the keys of the taints", i)
		case protects(t):
			return fmt.Errorf("spec.tolerations[%d] tolerates %s, which keeps nodes for pods of the cluster's own",
				i, t.Key)
		default:
			return fmt.Errorf("spec.tolerations[%d] tolerates %s: an administrator of the cluster allows the key "+
				"by %s of the tenant", i, t.Key, allowances.Field(allowances.Tolerations))
		}
	}
	return nil
}
