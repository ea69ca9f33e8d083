package filter

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/nodes"
)

// known are what tenants have, by their names; one that is missing cannot be read.
type known map[string]*tenantapi.TenantScheduling

func (k known) Scheduling(_ context.Context, tenant string) (*tenantapi.TenantScheduling, string, error) {
	s, ok := k[tenant]
	if !ok {
		return nil, "", errors.New("it cannot be read")
	}
	return s, "", nil
}

// rules are those of tenants of which a has a pool for itself alone, b another, and c none.
func rules() *nodes.Rules {
	all := known{"c": nil,
		"a": {NodeSelector: map[string]string{"pool": "a"}, Exclusive: true},
		"b": {NodeSelector: map[string]string{"pool": "b"}}}
	r := nodes.New(all)
	for name, s := range all {
		t := &tenantapi.Tenant{Spec: tenantapi.TenantSpec{Scheduling: s}}
		t.Name = name
		r.Changed(nil, t)
	}
	return r
}

func pod(namespace string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: namespace}}
}

func node(pool string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"pool": pool}}}
}

// TestFilter: a pod goes to the nodes of its tenant only, by its namespace alone, evicting
// others does not help it, and the reason names no tenant.
func TestFilter(t *testing.T) {
	p := &plugin{rules()}
	for namespace, may := range map[string]string{
		"default.a": "a", "default.b": "b", "default.c": "b other", "kube-system": "a b other",
	} {
		for _, pool := range []string{"a", "b", "other"} {
			of := pod(namespace)
			// None of these matters here.
			of.Spec.NodeSelector = map[string]string{"pool": pool}
			of.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			of.Labels = map[string]string{"a4s.io/tenant": "a"}
			cycle := framework.NewCycleState()
			var got *fwk.Status
			if _, got = p.PreFilter(t.Context(), cycle, of, nil); got.IsSuccess() {
				info := framework.NewNodeInfo()
				info.SetNode(node(pool))
				got = p.Filter(t.Context(), cycle, of, info)
			}
			want := strings.Contains(may, pool)
			refused := got.Code() == fwk.UnschedulableAndUnresolvable && strings.HasPrefix(got.Message(), "node(s) ")
			if ok := got.IsSuccess() || got.IsSkip(); ok != want || !ok && !refused {
				t.Errorf("a pod in %s on a node of the pool %s: %v", namespace, pool, got)
			}
		}
	}
	if _, got := p.PreFilter(t.Context(), framework.NewCycleState(), pod("default.unknown"), nil); got.Code() !=
		fwk.Error {
		t.Errorf("a tenant that cannot be read: %v", got)
	}
	got := p.Filter(t.Context(), framework.NewCycleState(), pod("default.a"), framework.NewNodeInfo())
	if got.Code() != fwk.Error {
		t.Errorf("without PreFilter: %v", got)
	}
	none := &plugin{nodes.New(known{"c": nil})}
	if _, got := none.PreFilter(t.Context(), framework.NewCycleState(), pod("default.c"), nil); !got.IsSkip() {
		t.Errorf("nobody has nodes, and the plugin looks at each: %v", got)
	}
}

// TestNodesWakePods: a node that comes or gets other labels has those tried again that were
// refused.
func TestNodesWakePods(t *testing.T) {
	events, err := (&plugin{}).EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []fwk.ActionType{fwk.Add, fwk.UpdateNodeLabel} {
		if !slices.ContainsFunc(events, func(e fwk.ClusterEventWithHint) bool {
			return e.Event.Resource == fwk.Node && e.Event.ActionType&want != 0 && e.QueueingHintFn == nil
		}) {
			t.Errorf("%v does not wake them", want)
		}
	}
}

// queue counts how often all pods are moved.
type queue struct {
	internalqueue.SchedulingQueue
	moved chan fwk.ClusterEvent
}

func (q queue) MoveAllToActiveOrBackoffQueue(
	_ klog.Logger, event fwk.ClusterEvent, _, _ any, _ internalqueue.PreEnqueueCheck,
) {
	q.moved <- event
}

// TestTenantsWakePods: a change of a Tenant has all tried again that wait, and a run begins
// when the tenants are known.
func TestTenantsWakePods(t *testing.T) {
	r := rules()
	q := queue{moved: make(chan fwk.ClusterEvent, 10)}
	sched := &scheduler.Scheduler{SchedulingQueue: q}
	made := Plugin(r, func() bool { return true })
	if err := made.Attach(t.Context(), sched, nil); err != nil {
		t.Fatal(err)
	}
	r.Gone("a")
	select {
	case event := <-q.moved:
		if !framework.ClusterEventIsWildCard(event) {
			t.Errorf("moved by %v", event)
		}
	default:
		t.Error("nothing is moved")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Plugin(r, func() bool { return false }).Attach(ended, sched, nil); err == nil {
		t.Error("it begins without the tenants")
	}
}

// TestSign: pods are alike only within a tenant.
func TestSign(t *testing.T) {
	p := &plugin{rules()}
	a, _ := p.SignPod(t.Context(), pod("x.a"))
	b, _ := p.SignPod(t.Context(), pod("x.b"))
	if len(a) != 1 || len(b) != 1 || a[0].Value == b[0].Value {
		t.Errorf("%v and %v", a, b)
	}
}
