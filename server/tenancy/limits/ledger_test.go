package limits

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/space"
)

// TestLedgerIsExact: whatever happens at once, as many are created as there is
// room for, and what fails or is deleted makes room.
func TestLedgerIsExact(t *testing.T) {
	l, limits := newAccounting(), unbounded()
	limits[objects], limits[bytes] = 10, 1000
	need := isObject.amounts(10, charge{})
	var revision, made atomic.Int64
	create := func(name string, succeeds bool) bool {
		if _, _, ok := l.reserve("t", &need, &limits); !ok {
			return false
		}
		if !succeeds {
			l.release("t", &need, reservation{})
			return true
		}
		made.Add(1)
		r := revision.Add(1)
		watched := func() { l.put("t", name, r, 12, isObject, charge{}) } // and knows better
		if r%2 == 0 {
			watched()
		}
		l.settle("t", &need, name, r, 10, isObject, charge{}, reservation{})
		if r%2 != 0 {
			watched()
		}
		return true
	}
	createMany(200, create)
	if n := made.Load(); n != 10 {
		t.Errorf("%d were made, the limit is 10", n)
	}
	if used := l.used("t"); used[objects] != 10 || used[bytes] != 120 {
		t.Errorf("%v", used)
	}
	if d, used, ok := l.reserve("t", &need, &limits); ok || d != objects || used != 10 {
		t.Errorf("%v, %v, %v", d, used, ok)
	}
	limits[objects], limits[bytes] = 20, 125
	if d, used, ok := l.reserve("t", &need, &limits); ok || d != bytes || used != 120 {
		t.Errorf("%v, %v, %v", d, used, ok)
	}
	if a := l.accounts["t"]; a.reserved != (sums{}) {
		t.Errorf("still reserved: %v", a.reserved)
	}
}

// createMany calls create many times at once, for what succeeds or not, and then until it refuses.
func createMany(many int, create func(name string, succeeds bool) bool) {
	var group sync.WaitGroup
	for i := range many {
		group.Go(func() { create(fmt.Sprintf("a%d", i), i%3 != 0) })
	}
	group.Wait()
	for i := 0; create(fmt.Sprintf("b%d", i), true); i++ {
	}
}

// createNamed creates what uses something by names until reserve refuses, and says how many were made,
// which is the last revision, too.
func createNamed(t *testing.T, l *accounting, used charge, named reservation, reserve func() bool) int64 {
	t.Helper()
	var made atomic.Int64
	none, bounds := amounts{}, unbounded()
	createMany(100, func(name string, succeeds bool) bool {
		if !reserve() {
			return false
		}
		if _, _, ok := l.reserve("t", &none, &bounds); !ok {
			t.Error("no bound is exceeded")
		}
		if !succeeds {
			l.release("t", &none, named)
			return true
		}
		r := made.Add(1)
		if r%2 == 0 {
			l.put("t", name, r, 1, isObject, used)
		}
		l.settle("t", &none, name, r, 1, isObject, used, named)
		l.put("t", name, r, 1, isObject, used)
		return true
	})
	return made.Load()
}

// TestLedgerTakesNewsInAnyOrder: what a write says and what a watch says of it
// come in any order, and after a reading only what was found is there.
func TestLedgerTakesNewsInAnyOrder(t *testing.T) {
	l := newAccounting()
	l.put("t", "x", 5, 100, isObject|isEvent, charge{})
	l.put("t", "x", 4, 1, isObject, charge{}) // old
	if u := l.used("t"); u[bytes] != 100 || u[eventBytes] != 100 || u[objects] != 1 {
		t.Errorf("%v", u)
	}
	l.remove("t", "x", 4)
	if l.used("t")[objects] != 1 {
		t.Error("an old deletion was believed")
	}
	l.put("t", "x", 5, 90, isObject, charge{cpu: 7}) // again
	l.put("t", "y", 6, 10, isObject|isCRD, charge{})
	if u := l.used("t"); u[definitions] != 1 || u[definitionBytes] != 10 {
		t.Errorf("of definitions: %v", u)
	}
	l.put("t", "z", 6, 0, isAccess, charge{})
	if u := l.used("t"); u[accesses] != 1 {
		t.Errorf("of accesses: %v", u)
	}
	l.remove("t", "z", 6)
	if u := l.used("t"); u[accesses] != 0 {
		t.Errorf("of accesses that are gone: %v", u)
	}
	if u := l.used("t"); u[bytes] != 100 || u[cpu] != 7 || u[eventBytes] != 0 {
		t.Errorf("%v", u)
	}
	l.remove("t", "x", 7)
	l.remove("t", "x", 7)
	if u := l.used("t"); u[bytes] != 10 || u[cpu] != 0 {
		t.Errorf("%v", u)
	}
	l.begin()
	l.put("t", "z", 6, 5, isObject, charge{})   // found
	l.put("t", "new", 9, 3, isObject, charge{}) // written meanwhile
	l.end(8)
	if u := l.used("t"); u[objects] != 2 || u[bytes] != 8 {
		t.Errorf("%v", u)
	}
	l.remove("t", "z", 10)
	l.remove("t", "new", 10)
	if len(l.accounts) != 0 {
		t.Error("an account of nobody")
	}
	select {
	case <-l.loaded:
	default:
		t.Error("not loaded")
	}
}

func TestOwnersOfKeys(t *testing.T) {
	k := &keys{resources: map[string]*stored{}}
	const root = "/registry"
	for prefix, s := range map[string]stored{
		"/pods":              {layout: space.Namespaced, belongs: true},
		"/namespaces":        {layout: space.Namespaces, belongs: true},
		"/clusterroles":      {layout: space.ClusterScoped, belongs: true},
		"/minions":           {layout: space.ClusterScoped},
		"/services/specs":    {layout: space.Namespaced, belongs: true},
		"/sys.example.com/x": {layout: space.Namespaced, belongs: true, custom: true},
	} {
		k.resources[root+prefix] = &s
	}
	for key, want := range map[string]string{
		"/pods/t/default/web":           "t",
		"/pods/default/web":             "",
		"/namespaces/t/default":         "t",
		"/namespaces/default":           "",
		"/clusterroles/t/admin":         "t",
		"/clusterroles/admin":           "",
		"/minions/node":                 "",
		"/services/specs/t/default/web": "t",
		"/services/specs/default/web":   "",
		"/sys.example.com/x/t/ns/n":     "t",
		"/sys.example.com/x/t/n":        "t", // of a CRD of its own, or of the system's namespace
		"/own.example.com/y/t/ns/n":     "t",
		"/own.example.com/y/t/n":        "t",
		"/own.example.com/y/n":          "",
		"/own.example.com":              "",
		"/ranges/serviceips":            "",
		"/compact_rev_key":              "",
		"":                              "",
	} {
		_, got, ok := k.owner(root+"/", root+key)
		if got != want && ok || ok != (want != "") {
			t.Errorf("%s is of %q (%v), want %q", key, got, ok, want)
		}
	}
	if _, _, ok := k.owner(root+"/", "/other/pods/t/default/web"); ok {
		t.Error("a key outside of the root")
	}
	if exempt(schema.GroupResource{Group: "t.example.com", Resource: "events"}) {
		t.Error("what a tenant calls events does not count")
	}
}

func TestCharges(t *testing.T) {
	always := core.ContainerRestartPolicyAlways
	list := func(cpu, memory string) core.ResourceList {
		l := core.ResourceList{}
		for name, text := range map[core.ResourceName]string{core.ResourceCPU: cpu, core.ResourceMemory: memory} {
			if text != "" {
				l[name] = resource.MustParse(text)
			}
		}
		return l
	}
	pod := func(change func(*core.Pod)) *core.Pod {
		p := &core.Pod{Spec: core.PodSpec{Containers: []core.Container{
			{Name: "a", Resources: core.ResourceRequirements{Requests: list("500m", "1Mi")}},
			{Name: "b", Resources: core.ResourceRequirements{Limits: list("1", "2Mi")}},
		}}}
		if change != nil {
			change(p)
		}
		return p
	}
	claim := &core.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = core.ResourceList{core.ResourceStorage: resource.MustParse("3Gi")}
	for name, c := range map[string]struct {
		obj  runtime.Object
		want charge
	}{
		"two containers": {pod(nil), charge{pods: 1, cpu: 1500, memory: 3 << 20}},
		"ended":          {pod(func(p *core.Pod) { p.Status.Phase = core.PodSucceeded }), charge{}},
		"one that initializes": {pod(func(p *core.Pod) {
			p.Spec.InitContainers = []core.Container{{Name: "i",
				Resources: core.ResourceRequirements{Requests: list("4", "1Ki")}}}
		}), charge{pods: 1, cpu: 4000, memory: 3 << 20}},
		"a sidecar": {pod(func(p *core.Pod) {
			p.Spec.InitContainers = []core.Container{{Name: "i", RestartPolicy: &always,
				Resources: core.ResourceRequirements{Requests: list("1", "")}}}
		}), charge{pods: 1, cpu: 2500, memory: 3 << 20}},
		"overhead": {pod(func(p *core.Pod) { p.Spec.Overhead = list("100m", "1Mi") }),
			charge{pods: 1, cpu: 1600, memory: 4 << 20}},
		"set aside": {pod(func(p *core.Pod) {
			p.Status.ContainerStatuses = []core.ContainerStatus{{Name: "a", AllocatedResources: list("2", "")}}
		}), charge{pods: 1, cpu: 3000, memory: 3 << 20}},
		"for the whole pod": {pod(
			func(p *core.Pod) { p.Spec.Resources = &core.ResourceRequirements{Requests: list("7", "")} }),
			charge{pods: 1, cpu: 7000, memory: 3 << 20}},
		"beyond measure": {pod(func(p *core.Pod) {
			p.Spec.Containers[0].Resources.Requests = list("9E", "9E")
			p.Spec.Containers[1].Resources.Requests = list("9E", "9E")
		}), charge{pods: 1, cpu: most, memory: most}},
		"claim": {claim, charge{volumes: 3 << 30}},
		"load balancer": {&core.Service{Spec: core.ServiceSpec{Type: core.ServiceTypeLoadBalancer,
			Ports:               []core.ServicePort{{Port: 80, NodePort: 30001}, {Port: 81}},
			HealthCheckNodePort: 30002}},
			charge{services: 1, loadBalancers: 1, balancerPorts: 2, nodePorts: 2}},
		"node ports": {&core.Service{Spec: core.ServiceSpec{Type: core.ServiceTypeNodePort,
			Ports: []core.ServicePort{{Port: 53, Protocol: core.ProtocolTCP, NodePort: 30001},
				{Port: 53, Protocol: core.ProtocolUDP, NodePort: 30001}, {Port: 80, NodePort: 30003}}}},
			charge{services: 1, nodePorts: 2}},
		"service": {&core.Service{}, charge{services: 1}},
	} {
		if got := chargeOf(c.obj); got != c.want {
			t.Errorf("%s costs %+v, want %+v", name, got, c.want)
		}
	}
}
