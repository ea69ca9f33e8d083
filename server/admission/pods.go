package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	core "k8s.io/kubernetes/pkg/apis/core"
	corev1convert "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// level is what the pods of a tenant may do to the nodes.
func (g *guard) level(ctx context.Context, tenant string) (api.Level, error) {
	value, err := g.tenants.Annotation(ctx, tenant, PodSecurity)
	if err != nil || value == "" {
		return api.LevelBaseline, err
	}
	level, err := api.ParseLevel(value)
	if err != nil {
		return api.LevelRestricted, fmt.Errorf("the annotation %s of tenant %s: %w", PodSecurity, tenant, err)
	}
	return level, nil
}

// checkPod looks at a new pod, or at one that is another than old. What was
// allowed once stays, and can be deleted and finalized.
func (g *guard) checkPod(ctx context.Context, tenant string, pod, old *core.Pod) error {
	if old != nil && equality.Semantic.DeepEqual(old.Spec, pod.Spec) {
		return nil
	}
	level, err := g.level(ctx, tenant)
	if err != nil || level == api.LevelPrivileged {
		return err
	}
	if err := g.checkPlace(ctx, tenant, pod, old); err != nil {
		return err
	}
	if err := g.checkPodClasses(ctx, tenant, pod); err != nil {
		return err
	}
	versioned := &corev1.Pod{}
	if err := corev1convert.Convert_core_Pod_To_v1_Pod(pod.DeepCopy(), versioned, nil); err != nil {
		return fmt.Errorf("reading the pod: %w", err)
	}
	if err := g.checkVolumeTypes(ctx, tenant, versioned.Spec.Volumes); err != nil {
		return err
	}
	if err := g.withoutAllowedPorts(ctx, tenant, &versioned.Spec); err != nil {
		return err
	}
	result := policy.AggregateCheckResults(g.evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &versioned.ObjectMeta, &versioned.Spec))
	if result.Allowed {
		return nil
	}
	return fmt.Errorf("the pods of tenants share their nodes with others, and this one violates PodSecurity %q: %s", level, result.ForbiddenDetail())
}

// protectedTaints keep the pods of tenants away from nodes: a toleration of them
// is for pods of the cluster's own.
func protectedTaints() []string {
	return []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "CriticalAddonsOnly"}
}

// checkPlace keeps tenants from choosing a node past the scheduler, and from
// nodes that are not for them. Old is nil for a new pod.
func (g *guard) checkPlace(ctx context.Context, tenant string, pod, old *core.Pod) error {
	if old == nil && pod.Spec.NodeName != "" {
		may, err := g.flag(ctx, tenant, NodeNames)
		if err != nil {
			return err
		}
		if !may {
			return fmt.Errorf("spec.nodeName is %q: the scheduler chooses the node, which spec.nodeSelector and spec.affinity can narrow", pod.Spec.NodeName)
		}
	}
	tolerated, err := g.allowed(ctx, tenant, Tolerations)
	if err != nil {
		return err
	}
	for i, t := range pod.Spec.Tolerations {
		if t.Key == "" && t.Operator == core.TolerationOpExists && !tolerated.has("*") {
			return fmt.Errorf("spec.tolerations[%d] tolerates every taint: name the keys of the taints", i)
		}
		for _, key := range protectedTaints() {
			if t.Key == key && !tolerated.has(key) {
				return fmt.Errorf("spec.tolerations[%d] tolerates %s, which keeps nodes for pods of the cluster's own", i, key)
			}
		}
	}
	return nil
}

// checkPodClasses keeps the classes of administrators for those whom they are
// meant for.
func (g *guard) checkPodClasses(ctx context.Context, tenant string, pod *core.Pod) error {
	if name := pod.Spec.PriorityClassName; name != "" {
		if err := g.checkPriorityClass(ctx, tenant, name); err != nil {
			return err
		}
	}
	if name := pod.Spec.RuntimeClassName; name != nil && *name != "" {
		classes, err := g.allowed(ctx, tenant, RuntimeClasses)
		if err != nil {
			return err
		}
		if classes.said && !classes.has(*name) {
			return fmt.Errorf("the RuntimeClass %s is not one of this space's: %s", *name, strings.Join(classes.items, ", "))
		}
	}
	return nil
}

// checkPriorityClass: with a priority above that of others, pods displace those
// of others. So without an allowance only classes that give none can be used, and
// the one that all pods get.
func (g *guard) checkPriorityClass(ctx context.Context, tenant, name string) error {
	if strings.HasPrefix(name, scheduling.SystemPriorityClassPrefix) {
		return fmt.Errorf("the priority class %s is that of the cluster's own pods, which nobody else may displace", name)
	}
	classes, err := g.allowed(ctx, tenant, PriorityClasses)
	switch {
	case err != nil:
		return err
	case classes.has(name):
		return nil
	case classes.said:
		return fmt.Errorf("the priority class %s is not one of this space's: %s", name, strings.Join(classes.items, ", "))
	}
	class, err := g.classes.Get(name)
	if err != nil {
		return fmt.Errorf("looking for the priority class %s: %w", name, err)
	}
	if class.Value > 0 && !class.GlobalDefault {
		return fmt.Errorf("pods of the priority class %s displace those of others, so an administrator of the cluster has to allow it by the annotation %s of the tenant", name, PriorityClasses)
	}
	return nil
}

// checkClaim looks at the class of a new claim.
func (g *guard) checkClaim(ctx context.Context, tenant string, claim *core.PersistentVolumeClaim) error {
	classes, err := g.allowed(ctx, tenant, StorageClasses)
	if err != nil || !classes.said {
		return err
	}
	name := ""
	if claim.Spec.StorageClassName != nil {
		name = *claim.Spec.StorageClassName
	}
	if name != "" && !classes.has(name) {
		return fmt.Errorf("the StorageClass %s is not one of this space's: %s", name, strings.Join(classes.items, ", "))
	}
	if name == "" && claim.Spec.StorageClassName == nil {
		return errors.New("spec.storageClassName is missing, and there is no default: name one of " + strings.Join(classes.items, ", "))
	}
	return nil
}
