package admission

import (
	"testing"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// TestTolerations: which are kept, which are left out and which are refused.
func TestTolerations(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	key := func(k string) core.Toleration { return core.Toleration{Key: k, Operator: core.TolerationOpExists} }
	later := key("node.kubernetes.io/unreachable")
	later.TolerationSeconds = seconds(300)
	again := later
	again.TolerationSeconds = seconds(300)
	for name, c := range map[string]struct {
		list      string
		level     string
		has, had  []core.Toleration
		requests  string
		kept      int
		refused   bool
		unfilled  bool // a tenant's admission adds it
		isChanged bool
	}{
		"conditions": {has: []core.Toleration{later, key("node.kubernetes.io/memory-pressure")}, kept: 2},
		"cordon":     {has: []core.Toleration{key("node.kubernetes.io/unschedulable")}},
		"any":        {has: []core.Toleration{key("team")}},
		"behind":     {has: []core.Toleration{key("team")}, unfilled: true, refused: true, kept: 1},
		"in a list":  {list: "other, team", has: []core.Toleration{key("team"), key("third")}, kept: 1},
		"everything": {has: []core.Toleration{key("")}, refused: true, kept: 1},
		"by a list":  {list: "*", has: []core.Toleration{key(""), key("CriticalAddonsOnly")}, kept: 2},
		"protected":  {has: []core.Toleration{key("node-role.kubernetes.io/master")}, refused: true, kept: 1},
		"trusted":    {level: "privileged", has: []core.Toleration{key(""), key("team")}, kept: 2},
		"it had it": {isChanged: true, had: []core.Toleration{key("team"), later}, kept: 2,
			has: []core.Toleration{key("team"), again}},
		"later": {isChanged: true, had: []core.Toleration{later}, has: []core.Toleration{again, key("team")},
			kept: 1},
		"a resource": {requests: "1", has: []core.Toleration{key("example.com/gpu")}, kept: 1},
		"of nothing": {requests: "0", has: []core.Toleration{key("example.com/gpu")}},
	} {
		g := tolerations{permits: permits{annotated{allowances.Tolerations: c.list, allowances.PodSecurity: c.level}}}
		pod, old := &core.Pod{}, (*core.Pod)(nil)
		pod.Spec.Tolerations = c.has
		if c.requests != "" {
			pod.Spec.Containers = []core.Container{{Resources: core.ResourceRequirements{
				Requests: core.ResourceList{"example.com/gpu": apiresource.MustParse(c.requests)}}}}
		}
		if c.isChanged {
			old = &core.Pod{Spec: core.PodSpec{Tolerations: c.had}}
		}
		if !c.unfilled {
			if err := g.drop(t.Context(), "t1", pod, old); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(pod.Spec.Tolerations) != c.kept {
			t.Errorf("%s: kept %v", name, pod.Spec.Tolerations)
		}
		if c.level != "" {
			continue // checkPod does not come so far
		}
		if err := g.check(t.Context(), "t1", pod, old); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
