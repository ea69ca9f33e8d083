package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/nodes"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// placed are tenants with annotations, of which t1 has nodes and images.
type placed struct {
	annotated
	of     *tenantapi.TenantScheduling
	images []string
}

func (p placed) Images(_ context.Context, tenant string) ([]string, error) {
	if tenant != "t1" {
		return nil, nil
	}
	return p.images, nil
}

func (p placed) Scheduling(_ context.Context, tenant string) (*tenantapi.TenantScheduling, string, error) {
	if tenant != "t1" {
		return nil, "", nil
	}
	return p.of, "", nil
}

// placesGuard knows nodes by the label that they have, one of which only the API server does.
func placesGuard(t *testing.T, tenants placed) *guard {
	t.Helper()
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": name}}}
	}
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, name := range []string{"own", "other", "kept"} {
		if err := store.Add(node(name)); err != nil {
			t.Fatal(err)
		}
	}
	rules := nodes.New(tenants)
	g, err := newGuard(tenants, rules)
	if err != nil {
		t.Fatal(err)
	}
	fresh := node("fresh")
	fresh.Labels["pool"] = "own"
	g.classes = classes(t)
	g.places.lister, g.places.client = corelisters.NewNodeLister(store), fake.NewClientset(fresh).CoreV1().Nodes()
	keeper := &tenantapi.Tenant{Spec: tenantapi.TenantSpec{Scheduling: &tenantapi.TenantScheduling{
		NodeSelector: map[string]string{"pool": "kept"}, Exclusive: true}}}
	keeper.Name = "keeper"
	rules.Changed(nil, keeper)
	return g
}

// TestPlaces: what names a node, or is bound to one, comes to the nodes of its tenant only,
// whatever the tenant is allowed, and a label that no node of the tenant has is refused.
func TestPlaces(t *testing.T) {
	own := &tenantapi.TenantScheduling{NodeSelector: map[string]string{"pool": "own"}}
	named := annotated{allowances.NodeNames: "true"}
	trusted := annotated{allowances.PodSecurity: "privileged"}
	selects := func(value string) *core.Pod {
		return &core.Pod{Spec: core.PodSpec{NodeSelector: map[string]string{"pool": value, "zone": "z"}}}
	}
	const chooses = "the scheduler chooses the node"
	at := func(node string) *core.Pod { return &core.Pod{Spec: core.PodSpec{NodeName: node}} }
	for name, c := range map[string]struct {
		tenant   annotated
		of       *tenantapi.TenantScheduling
		pod, old *core.Pod
		bind     string // a node, instead of a pod
		want     string // "" if nothing is refused
	}{
		"named, its own":             {tenant: named, of: own, pod: at("own")},
		"named, without the right":   {of: own, pod: at("own"), want: chooses},
		"another, without the right": {of: own, pod: at("other"), want: chooses},
		"kept, without the right":    {pod: at("kept"), want: chooses},
		"absent, without the right":  {of: own, pod: at("later"), want: chooses},
		"named, another":             {tenant: named, of: own, pod: at("other"), want: "pool=own"},
		"named, one just made":       {tenant: named, of: own, pod: at("fresh")},
		"named, one to be made":      {tenant: named, of: own, pod: at("later"), want: "cannot be compared"},
		"named, kept":                {tenant: named, pod: at("kept"), want: "set aside"},
		"named, not kept":            {tenant: named, pod: at("other")},
		"privileged, named, another": {tenant: trusted, of: own, pod: at("other"), want: "pool=own"},
		"privileged, named, kept":    {tenant: trusted, pod: at("kept"), want: "set aside"},
		"privileged, its own":        {tenant: trusted, of: own, pod: at("own")},
		"one that has it":            {of: own, old: at("other"), pod: at("other")},
		"bound, its own":             {of: own, bind: "own"},
		"bound, another":             {of: own, bind: "other", want: "pool=own"},
		"bound, kept":                {bind: "kept", want: "set aside"},
		"bound, not kept":            {bind: "other"},
		"bound, one just made":       {of: own, bind: "fresh"},
		"bound to nothing":           {of: own, bind: "later", want: "cannot be compared"},
		"another label": {of: own, pod: selects("other"),
			want: "pool=other, and the nodes of this tenant have pool=own"},
		"its label":                 {of: own, pod: selects("own")},
		"no label of the tenant":    {pod: selects("other")},
		"privileged, another label": {tenant: trusted, of: own, pod: selects("other"), want: "pool=other"},
		"a label that it had":       {of: own, old: selects("other"), pod: selects("other")},
		"a label later":             {of: own, old: &core.Pod{}, pod: selects("other"), want: "pool=other"},
	} {
		t.Run(name, func(t *testing.T) {
			g := placesGuard(t, placed{annotated: c.tenant, of: c.of})
			binding := &core.Binding{Target: core.ObjectReference{Kind: "Node", Name: c.bind}}
			attr := admission.NewAttributesRecord(binding, nil, core.Kind("Binding").WithVersion("v1"), "default.t1",
				"p", core.Resource("pods").WithVersion("v1"), "binding", admission.Create, &metav1.CreateOptions{},
				false, &user.DefaultInfo{Name: "driver"})
			var err error
			if c.bind != "" {
				err = g.check(t.Context(), "t1", false, attr)
			} else {
				err = g.checkPod(t.Context(), "t1", c.pod, c.old)
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if c.want == chooses && err != nil && err.Error() !=
				fmt.Sprintf("spec.nodeName is %q: %s, which spec.nodeSelector and spec.affinity can narrow",
					c.pod.Spec.NodeName, chooses) {
				t.Errorf("%v says something of the node", err)
			}
			if err != nil && strings.Contains(err.Error(), "keeper") {
				t.Errorf("%v names another tenant", err)
			}
		})
	}
	g := placesGuard(t, placed{of: own})
	if err := g.places.checkNode(t.Context(), space.System, "kept"); err != nil {
		t.Errorf("the system space: %v", err)
	}
}

// binds asks for a pod of t1 to be bound to a node.
func binds(ctx context.Context, g *guard, node string) error {
	attr := admission.NewAttributesRecord(&core.Binding{Target: core.ObjectReference{Kind: "Node", Name: node}}, nil,
		core.Kind("Binding").WithVersion("v1"), "default.t1", "p", core.Resource("pods").WithVersion("v1"), "binding",
		admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: "driver"})
	return (&lifecycle{admission: &Admission{guard: g}}).Validate(ctx, attr, nil)
}

// unread are tenants that cannot be read.
type unread struct{ placed }

func (unread) Scheduling(context.Context, string) (*tenantapi.TenantScheduling, string, error) {
	return nil, "", errors.New("the datastore does not answer")
}

// TestNodesThatAreNotKnownYet: until the tenants are known that keep nodes, and where
// something cannot be read, the answer is to try again, not that it is forbidden.
func TestNodesThatAreNotKnownYet(t *testing.T) {
	impatient, leave := context.WithCancel(t.Context())
	leave()
	g := placesGuard(t, placed{})
	g.places.synced = func() bool { return false }
	if err := binds(impatient, g, "other"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("without the tenants: %v", err)
	}
	rules := nodes.New(placed{})
	g.places.rules = rules
	var asked atomic.Int64
	g.places.synced = func() bool {
		if asked.Add(1) == 1 {
			return false
		}
		keeper := &tenantapi.Tenant{Spec: tenantapi.TenantSpec{Scheduling: &tenantapi.TenantScheduling{
			NodeSelector: map[string]string{"pool": "kept"}, Exclusive: true}}}
		keeper.Name = "keeper"
		rules.Changed(nil, keeper)
		return true
	}
	err := binds(t.Context(), g, "kept")
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "set aside") {
		t.Errorf("once the tenants are known: %v", err)
	}
	g = placesGuard(t, placed{})
	g.places.rules = nodes.New(unread{})
	if err := binds(t.Context(), g, "other"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("without its own Tenant: %v", err)
	}
	g = placesGuard(t, placed{})
	if err := binds(t.Context(), g, "later"); !apierrors.IsForbidden(err) {
		t.Errorf("a node that is not there: %v", err)
	}
	failing := fake.NewClientset()
	failing.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("the datastore does not answer"))
	})
	g.places.client = failing.CoreV1().Nodes()
	if err := binds(t.Context(), g, "later"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a node that cannot be read: %v", err)
	}
}

// TestGivenTolerationsAreThePodsOwn: who changes the pod does not change the Tenant.
func TestGivenTolerationsAreThePodsOwn(t *testing.T) {
	seconds := int64(60)
	g := placesGuard(t, placed{of: &tenantapi.TenantScheduling{Tolerations: []corev1.Toleration{
		{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: &seconds}}}})
	pod := &core.Pod{}
	if err := g.giveTolerations(t.Context(), "t1", pod); err != nil || len(pod.Spec.Tolerations) != 1 {
		t.Fatalf("%v, %v", pod.Spec.Tolerations, err)
	}
	*pod.Spec.Tolerations[0].TolerationSeconds = 1
	if seconds != 60 {
		t.Error("the Tenant has changed with the pod")
	}
}

// TestTolerationsOfTheTenant are given to new pods, whatever their level, once, and a wider
// one of the same key is not.
func TestTolerationsOfTheTenant(t *testing.T) {
	const key = "dedicated"
	of := &tenantapi.TenantScheduling{Tolerations: []corev1.Toleration{
		{Key: key, Operator: corev1.TolerationOpEqual, Value: "t1", Effect: corev1.TaintEffectNoSchedule}}}
	own := core.Toleration{Key: key, Operator: core.TolerationOpEqual, Value: "t1", Effect: core.TaintEffectNoSchedule}
	wide := core.Toleration{Key: key, Operator: core.TolerationOpExists}
	for name, c := range map[string]struct {
		level, tenant string
		has           []core.Toleration
		op            admission.Operation
		want          []core.Toleration
	}{
		"none":        {want: []core.Toleration{own}},
		"it has it":   {has: []core.Toleration{own}, want: []core.Toleration{own}},
		"a wider one": {has: []core.Toleration{wide}, want: []core.Toleration{own}},
		"privileged": {level: "privileged", has: []core.Toleration{wide},
			want: []core.Toleration{wide, own}},
		"of another tenant":  {tenant: "t2", has: []core.Toleration{own}},
		"one that was there": {op: admission.Update},
		"one that it asks for": {op: admission.Update, has: []core.Toleration{own, wide},
			want: []core.Toleration{own}},
	} {
		t.Run(name, func(t *testing.T) {
			g := placesGuard(t, placed{annotated: annotated{allowances.PodSecurity: c.level}, of: of})
			if c.tenant == "" {
				c.tenant = "t1"
			}
			if c.op == "" {
				c.op = admission.Create
			}
			pod := &core.Pod{Spec: core.PodSpec{Tolerations: c.has}}
			var old *core.Pod
			if c.op == admission.Update {
				old = &core.Pod{}
			}
			attr := admission.NewAttributesRecord(pod, old, core.Kind("Pod").WithVersion("v1"), "default."+c.tenant,
				"p", core.Resource("pods").WithVersion("v1"), "", c.op, nil, false, nil)
			if err := g.fill(t.Context(), c.tenant, attr); err != nil {
				t.Fatal(err)
			}
			if len(pod.Spec.Tolerations) != len(c.want) {
				t.Fatalf("got %v, want %v", pod.Spec.Tolerations, c.want)
			}
			for _, one := range c.want {
				if !hasToleration(pod.Spec.Tolerations, one) {
					t.Errorf("got %v, want %v", pod.Spec.Tolerations, c.want)
				}
			}
			if c.level == "" {
				if err := tolerations(g.runtimes).check(t.Context(), c.tenant, pod, old); err != nil {
					t.Errorf("what it was given is refused: %v", err)
				}
			}
		})
	}
}
