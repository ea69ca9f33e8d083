package admission

import (
	"context"
	"fmt"

	core "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/pod-security-admission/api"

	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// permits are what administrators of the cluster allow tenants.
type permits struct{ tenants Tenants }

// level is what the pods of a tenant may do to the nodes.
func (g permits) level(ctx context.Context, tenant string) (api.Level, error) {
	value, err := g.tenants.Allowance(ctx, tenant, allowances.PodSecurity)
	if err != nil || value == "" {
		return api.LevelBaseline, err
	}
	level, err := api.ParseLevel(value)
	if err != nil {
		return api.LevelRestricted,
			fmt.Errorf("%s of tenant %s: %w", allowances.Field(allowances.PodSecurity), tenant, err)
	}
	return level, nil
}

// tolerations are what the scheduling of the tenant gives to its pods.
func (g permits) tolerations(ctx context.Context, tenant string) ([]core.Toleration, error) {
	s, _, err := g.tenants.Scheduling(ctx, tenant)
	if err != nil || s == nil {
		return nil, err
	}
	return coreTolerations(s.Tolerations)
}

// giveTolerations gives a new pod those of its tenant. Taints without them keep pods off a
// node, and evict them, by what the pod itself has.
func (g permits) giveTolerations(ctx context.Context, tenant string, pod *core.Pod) error {
	own, err := g.tolerations(ctx, tenant)
	for _, t := range own {
		if !hasToleration(pod.Spec.Tolerations, t) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
		}
	}
	return err
}

// allowed reads a list of what a tenant may have.
func (g permits) allowed(ctx context.Context, tenant, key string) (allowances.List, error) {
	value, err := g.tenants.Allowance(ctx, tenant, key)
	return allowances.ParseList(value), err
}

// ports reads the ports of nodes that a tenant may have; otherwise is what holds
// if nobody says any.
func (g permits) ports(ctx context.Context, tenant, key, otherwise string) (allowances.Ports, error) {
	value, err := g.tenants.Allowance(ctx, tenant, key)
	if err != nil {
		return allowances.Ports{}, err
	}
	if value == "" {
		value = otherwise
	}
	ports, err := allowances.ParsePorts(value)
	if err != nil {
		return ports, fmt.Errorf("%s of tenant %s: %w", allowances.Field(key), tenant, err)
	}
	return ports, nil
}
