package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	core "k8s.io/kubernetes/pkg/apis/core"
	corev1convert "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// checkPod looks at a new pod, or at one that is another than old. What was
// allowed once stays, and can be deleted and finalized.
func (g *guard) checkPod(ctx context.Context, tenant string, pod, old *core.Pod) error {
	if old != nil && equality.Semantic.DeepEqual(old.Spec, pod.Spec) {
		return nil
	}
	if err := checkAsked(pod, old); err != nil {
		return err
	}
	level, err := g.level(ctx, tenant)
	if err != nil {
		return err
	}
	if level != api.LevelPrivileged {
		// Before the node is looked at: who may not name one does not learn which there are,
		// and which are set aside.
		if err := g.checkPlace(ctx, tenant, pod, old); err != nil {
			return err
		}
	}
	if err := g.places.checkPod(ctx, tenant, pod, old); err != nil {
		return err
	}
	if err := g.checkImages(ctx, tenant, pod, old); err != nil {
		return err
	}
	if old == nil { // nobody changes the class of a pod
		if err := g.checkPriority(pod); err != nil {
			return err
		}
		if err := g.checkPriorityClass(ctx, tenant, pod.Spec.PriorityClassName); err != nil {
			return err
		}
	}
	if level == api.LevelPrivileged {
		return nil
	}
	versioned := &corev1.Pod{}
	if err := corev1convert.Convert_core_Pod_To_v1_Pod(pod.DeepCopy(), versioned, nil); err != nil {
		return fmt.Errorf("reading the pod: %w", err)
	}
	err = storage{g.permits}.checkVolumes(ctx, tenant, versioned.Spec.Volumes)
	if err != nil {
		return err
	}
	if err := g.withoutAllowedPorts(ctx, tenant, &versioned.Spec); err != nil {
		return err
	}
	result := policy.AggregateCheckResults(g.evaluator.EvaluatePod(api.LevelVersion{
		Level:   level,
		Version: api.LatestVersion(),
	}, &versioned.ObjectMeta, &versioned.Spec))
	if result.Allowed {
		return nil
	}
	return fmt.Errorf("the pods of tenants share their nodes with others, and this one violates PodSecurity %q: %s%s",
		level, result.ForbiddenDetail(), debugging(level, pod, old))
}

// debugging says how to debug a pod where the default of kubectl debug is
// refused: it lets the new container trace others. Old is nil for a new pod,
// which may be the copy of another.
func debugging(level api.Level, pod, old *core.Pod) string {
	debugs := old != nil && len(pod.Spec.EphemeralContainers) > len(old.Spec.EphemeralContainers)
	for i := range pod.Spec.Containers {
		if sc := pod.Spec.Containers[i].SecurityContext; old == nil && sc != nil && sc.Capabilities != nil {
			debugs = debugs || slices.Contains(sc.Capabilities.Add, "SYS_PTRACE")
		}
	}
	if !debugs {
		return ""
	}
	return fmt.Sprintf("; kubectl debug makes what is allowed here with --profile=%s", level)
}

// checkPlace keeps tenants from choosing a node past the scheduler, and from
// nodes that are not for them. Old is nil for a new pod.
func (g *guard) checkPlace(ctx context.Context, tenant string, pod, old *core.Pod) error {
	if old == nil && pod.Spec.NodeName != "" {
		value, err := g.tenants.Allowance(ctx, tenant, allowances.NodeNames)
		if err != nil {
			return err
		}
		may, err := allowances.ParseFlag(value)
		if err != nil {
			return fmt.Errorf("%s of tenant %s: %w", allowances.Field(allowances.NodeNames), tenant, err)
		}
		if !may {
			return fmt.Errorf("spec.nodeName is %q: the scheduler chooses the node, "+
				"which spec.nodeSelector and spec.affinity can narrow", pod.Spec.NodeName)
		}
	}
	return tolerations(g.runtimes).check(ctx, tenant, pod, old)
}

// checkPriority looks at the number that the scheduler goes by. Upstream takes it
// from the class before admission of tenants, which may change it.
func (g *guard) checkPriority(pod *core.Pod) error {
	class, err := g.priorityClass(pod.Spec.PriorityClassName)
	if err != nil {
		return err
	}
	value, policy, of := int32(0), core.PreemptLowerPriority, "a pod without a priority class"
	if class != nil {
		value, of = class.Value, "the priority class "+class.Name
		if class.PreemptionPolicy != nil {
			policy = core.PreemptionPolicy(*class.PreemptionPolicy)
		}
	}
	if has := pod.Spec.Priority; has != nil && *has != value || has == nil && value != 0 {
		return fmt.Errorf("spec.priority is not %d, which is that of %s: leave it out, it follows the class", value,
			of)
	}
	if has := pod.Spec.PreemptionPolicy; policy == core.PreemptNever && (has == nil || *has != policy) {
		return fmt.Errorf("spec.preemptionPolicy is not %s, which is that of %s: leave it out, it follows the class",
			policy, of)
	}
	return nil
}

// priorityClass is the class of a name, and without a name the one that pods get
// by default, which is nil if there is none.
func (g *guard) priorityClass(name string) (*schedulingv1.PriorityClass, error) {
	if name != "" {
		class, err := g.classes.Get(name)
		if err != nil {
			return nil, fmt.Errorf("looking for the priority class %s: %w", name, err)
		}
		return class, nil
	}
	classes, err := g.classes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("looking for the default priority class: %w", err)
	}
	var found *schedulingv1.PriorityClass
	for _, class := range classes { // of several, the lowest
		if class.GlobalDefault && (found == nil || class.Value < found.Value) {
			found = class
		}
	}
	return found, nil
}

// checkPriorityClass: with a priority above that of others, pods displace those
// of others. So without an allowance only classes that give none can be used, and
// the one that all pods get. That one is what a pod without a class has, so no list
// leaves it out.
func (g *guard) checkPriorityClass(ctx context.Context, tenant, name string) error {
	if name == "" {
		return nil
	}
	level, err := g.level(ctx, tenant)
	if err != nil {
		return err
	}
	trusted := level == api.LevelPrivileged
	if strings.HasPrefix(name, scheduling.SystemPriorityClassPrefix) && !trusted {
		return fmt.Errorf("the priority class %s is that of the cluster's own pods, which nobody else may displace",
			name)
	}
	classes, err := g.allowed(ctx, tenant, allowances.PriorityClasses)
	if err != nil || classes.Has(name) || !classes.Said && trusted {
		return err
	}
	usual, err := g.priorityClass("")
	if err != nil || usual != nil && usual.Name == name {
		return err
	}
	if classes.Said {
		return fmt.Errorf("the priority class %s is not one of this space's: %s", name, classes)
	}
	class, err := g.priorityClass(name)
	if err != nil {
		return err
	}
	if class.Value > 0 {
		return fmt.Errorf("pods of the priority class %s displace those of others, so an administrator of the "+
			"cluster has to allow it by %s of the tenant", name, allowances.Field(allowances.PriorityClasses))
	}
	return nil
}

// withoutAllowedPorts takes the ports of nodes that the tenant may have out of
// a copy of the pod, which is then judged by what is left.
func (g *guard) withoutAllowedPorts(ctx context.Context, tenant string, spec *corev1.PodSpec) error {
	allowed, err := g.ports(ctx, tenant, allowances.HostPorts, "false")
	if err != nil {
		return err
	}
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for _, c := range containers {
			for i := range c.Ports {
				if allowed.Has(c.Ports[i].HostPort) {
					c.Ports[i].HostPort = 0
				}
			}
		}
	}
	return nil
}
