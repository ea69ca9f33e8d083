package readiness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/workload"
)

var epoch = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func containerd(ready corev1.ConditionStatus, since time.Time) noderuntime.State {
	return noderuntime.State{Name: "containerd", Type: workload.Container, Primary: true, Ready: ready,
		Reason: "R" + string(ready), Message: "it is " + string(ready), Since: since, Version: "containerd 2.3.7"}
}

func vms(ready corev1.ConditionStatus, since time.Time) noderuntime.State {
	return noderuntime.State{Name: "vms", Type: workload.VM, Ready: ready, Reason: "R" + string(ready),
		Message: "it is " + string(ready), Since: since}
}

// kubelets is what the kubelet has in a Node, in its order.
func kubelets() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{"other": "1"}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "K"},
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "K"},
		}},
	}
}

// apply patches a node as the server does.
func apply(t *testing.T, node *corev1.Node, states []noderuntime.State, now time.Time) (changed bool) {
	t.Helper()
	patch, err := patchFor(node, states, now, heartbeat)
	if err != nil {
		t.Fatal(err)
	}
	if patch == nil {
		return false
	}
	before, err := json.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Node{})
	if err != nil {
		t.Fatal(err)
	}
	*node = corev1.Node{}
	if err := json.Unmarshal(after, node); err != nil {
		t.Fatal(err)
	}
	return true
}

func conditionOf(n *corev1.Node, t corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == t {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

func TestTheDefaultAndThePrimaryDecide(t *testing.T) {
	early, late := epoch, epoch.Add(time.Minute)
	usual := func(ready corev1.ConditionStatus, since time.Time) noderuntime.State {
		return noderuntime.State{Name: "usual", Type: workload.Container, Ready: ready, Reason: "usual", Since: since}
	}
	main := func(ready corev1.ConditionStatus, since time.Time) noderuntime.State {
		s := containerd(ready, since)
		s.Reason = "main"
		return s
	}
	for name, tc := range map[string]struct {
		states []noderuntime.State
		ready  corev1.ConditionStatus
		reason string
		since  time.Time
	}{
		"both are ready": {[]noderuntime.State{usual("True", early), main("True", late)},
			"True", "main", late},
		"both are, the default became so": {[]noderuntime.State{usual("True", late), main("True", early)},
			"True", "main", late},
		"the primary is away": {[]noderuntime.State{usual("True", late), main("Unknown", early)},
			"Unknown", "main", early},
		"the default is not ready": {[]noderuntime.State{usual("False", late), main("True", early)},
			"False", "usual", late},
		"neither is": {[]noderuntime.State{usual("False", late), main("Unknown", early)},
			"False", "usual", late},
		"the primary is the default": {[]noderuntime.State{main("True", early), usual("False", late)},
			"True", "main", early},
	} {
		t.Run(name, func(t *testing.T) {
			got := Conditions(append(tc.states, vms("True", epoch)))
			if c := got[0]; len(got) != 2 || c.Type != workload.ContainerRuntimeReady || c.Status != tc.ready ||
				c.Reason != tc.reason || !c.LastTransitionTime.Time.Equal(tc.since) {
				t.Errorf("%+v, want %s since %s because of %s", got, tc.ready, tc.since, tc.reason)
			}
		})
	}
}

func TestPatches(t *testing.T) {
	node := kubelets()
	at := epoch
	step := func(what string, states []noderuntime.State, want bool) {
		t.Helper()
		if got := apply(t, node, states, at); got != want {
			t.Errorf("%s: patched %v, want %v", what, got, want)
		}
		// What others wrote stays as it is.
		if c := conditionOf(node, corev1.NodeReady); c == nil || c.Reason != "K" || node.Annotations["other"] != "1" {
			t.Errorf("%s: what is not ours became %+v, %v", what, node.Status.Conditions, node.Annotations)
		}
		if apply(t, node.DeepCopy(), states, at) {
			t.Errorf("%s: what was written is written again", what)
		}
	}
	expect := func(
		what string, ct corev1.NodeConditionType, status corev1.ConditionStatus,
		transition, beat time.Time, message string,
	) {
		t.Helper()
		c := conditionOf(node, ct)
		if c == nil {
			t.Fatalf("%s: no condition %s", what, ct)
		}
		if c.Status != status || !c.LastTransitionTime.Time.Equal(transition) ||
			!c.LastHeartbeatTime.Time.Equal(beat) || c.Message != message {
			t.Errorf("%s: %+v, want %s since %s at %s: %s", what, *c, status, transition, beat, message)
		}
	}
	first := []noderuntime.State{containerd("Unknown", epoch), vms("Unknown", epoch)}
	step("at first", first, true)
	expect("at first", workload.ContainerRuntimeReady, "Unknown", epoch, at,
		"containerd, the primary runtime (containerd 2.3.7): it is Unknown")
	expect("at first", workload.VMRuntimeReady, "Unknown", epoch, at, "vms: it is Unknown")
	if node.Annotations[workload.PrimaryAnnotation] != "container" {
		t.Errorf("annotations %v", node.Annotations)
	}

	at = epoch.Add(time.Minute)
	step("ready", []noderuntime.State{containerd("True", at), vms("True", at)}, true)
	expect("ready", workload.ContainerRuntimeReady, "True", at, at,
		"containerd, the primary runtime (containerd 2.3.7): it is True")

	// After a restart of a4s states are young, but the status is no other.
	ready := at
	at = at.Add(time.Minute)
	step("a restart", []noderuntime.State{containerd("True", at), vms("True", at)}, false)
	at = at.Add(heartbeat)
	step("heartbeat", []noderuntime.State{containerd("True", at), vms("True", at)}, true)
	expect("heartbeat", workload.VMRuntimeReady, "True", ready, at, "vms: it is True")

	other := vms("True", at)
	other.Message = "of another mind"
	step("another message", []noderuntime.State{containerd("True", at), other}, true)
	expect("another message", workload.VMRuntimeReady, "True", ready, at, "vms: of another mind")

	second := noderuntime.State{Name: "spare", Type: workload.VM, Ready: "False", Message: "broken"}
	step("the default of the type counts", []noderuntime.State{containerd("True", at), other, second}, true)
	expect("the default of the type counts", workload.VMRuntimeReady, "True", ready, at,
		"vms: of another mind; spare: broken")

	step("removed", []noderuntime.State{containerd("True", at)}, true)
	if c := conditionOf(node, workload.VMRuntimeReady); c != nil {
		t.Errorf("the condition of a runtime that is gone is left: %+v", *c)
	}
	if c := conditionOf(node, workload.ContainerRuntimeReady); c == nil || !c.LastTransitionTime.Time.Equal(ready) {
		t.Errorf("the other runtime's condition became %+v", c)
	}
	step("none", nil, true)
	if _, ok := node.Annotations[workload.PrimaryAnnotation]; ok ||
		!reflect.DeepEqual(node.Status.Conditions, kubelets().Status.Conditions) {
		t.Errorf("left behind: %+v, %v", node.Status.Conditions, node.Annotations)
	}
}

// known are runtimes that the test changes.
type known struct {
	mu      sync.Mutex
	states  []noderuntime.State
	changed chan struct{}
}

func (k *known) States() []noderuntime.State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.states
}

func (k *known) Subscribe() (<-chan struct{}, func()) { return k.changed, func() {} }

func (k *known) set(states ...noderuntime.State) {
	k.mu.Lock()
	k.states = states
	k.mu.Unlock()
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

func TestComponent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var mu sync.Mutex
		patches, away := 0, true
		client.PrependReactor("*", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			if a.GetVerb() == "patch" {
				patches++
			}
			// An informer that fails keeps the time of that for all tests.
			if away && a.GetVerb() != "watch" && a.GetVerb() != "list" {
				return true, nil, errors.New("away")
			}
			return false, nil, nil
		})
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return patches
		}
		told := &Told{}
		k := &known{changed: make(chan struct{}, 1)}
		k.set(containerd("Unknown", time.Now()))
		var isReady atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- New(Options{Client: client, NodeName: "n1", Runtimes: k, Told: told}).Run(ctx, func() {
				isReady.Store(true)
			})
		}()
		status := func() corev1.ConditionStatus {
			n, err := client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if c := conditionOf(n, workload.ContainerRuntimeReady); c != nil {
				return c.Status
			}
			return ""
		}
		time.Sleep(time.Hour) // the bubble's
		if isReady.Load() || count() > 0 || told.unready(workload.Container, time.Now()) {
			t.Fatal("it reported to a server that is away")
		}
		mu.Lock()
		away = false
		mu.Unlock()
		// The server is there, the node is not yet registered.
		time.Sleep(time.Minute)
		if _, err := client.CoreV1().Nodes().Create(ctx, kubelets(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(maxRetry * 2)
		if status() != "Unknown" || !isReady.Load() || count() != 1 {
			t.Fatalf("first report: %q, ready %v, %d patches", status(), isReady.Load(), count())
		}

		for _, s := range []corev1.ConditionStatus{"True", "False", "True"} {
			k.set(containerd(s, time.Now()))
			time.Sleep(time.Second)
			if status() != s {
				t.Errorf("a second after the change to %s the condition is %s", s, status())
			}
			if got := told.unready(workload.Container, time.Now()); got != (s != "True") {
				t.Errorf("after the report of %s the runtime is known as unready: %v", s, got)
			}
		}
		before := count()
		for range 100 { // it flaps for 10 s
			k.set(containerd("False", time.Now()))
			time.Sleep(50 * time.Millisecond)
			k.set(containerd("True", time.Now()))
			time.Sleep(50 * time.Millisecond)
		}
		if n := count() - before; n > 20 {
			t.Errorf("%d patches in 10 s", n)
		}
		time.Sleep(time.Second)

		before = count()
		time.Sleep(time.Hour)
		if n := count() - before; n < 10 || n > 12 {
			t.Errorf("%d heartbeats in an hour", n)
		}

		// Someone makes the Node anew.
		if err := client.CoreV1().Nodes().Delete(ctx, "n1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Nodes().Create(ctx, kubelets(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if status() != "True" {
			t.Errorf("the new Node has the condition %q", status())
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

func TestGate(t *testing.T) {
	const grace = 20 * time.Second
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	long := ago(time.Hour)
	for _, tc := range []struct {
		name   string
		t      workload.Type
		states []noderuntime.State
		told   time.Duration // for how long the cluster knows these states; 0 if it does not
		want   string
	}{
		{"ready", workload.VM, []noderuntime.State{containerd("True", long), vms("True", long)}, time.Hour, ""},
		{"no runtime of the type", workload.VM, []noderuntime.State{containerd("True", long)}, time.Hour,
			"no ready vm runtime (none is registered)"},
		{"removed just now", workload.VM, []noderuntime.State{containerd("True", long)}, 0, ""},
		{"lost", workload.VM, []noderuntime.State{containerd("True", long), vms("Unknown", long)}, 5 * time.Second,
			"no ready vm runtime (VmRuntimeReady is Unknown: RUnknown)"},
		{"lost just now", workload.VM,
			[]noderuntime.State{containerd("True", long), vms("Unknown", now)}, goodFaith / 2, ""},
		{"lost for long, but nobody knows", workload.VM,
			[]noderuntime.State{containerd("True", long), vms("Unknown", long)}, 0, ""},
		{"primary lost within grace", workload.Container,
			[]noderuntime.State{containerd("Unknown", ago(5*time.Second))}, 5 * time.Second, ""},
		{"primary lost", workload.Container, []noderuntime.State{containerd("Unknown", long)}, time.Hour,
			"no ready container runtime"},
		{"vm while the primary is lost", workload.VM,
			[]noderuntime.State{containerd("False", long), vms("True", long)}, time.Hour, "no ready primary runtime"},
		{"vm while the primary is lost within grace", workload.VM,
			[]noderuntime.State{containerd("False", ago(5*time.Second)), vms("True", long)}, 5 * time.Second, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			told := &Told{}
			if tc.told > 0 {
				told.note(Conditions(tc.states), ago(tc.told))
				told.note(Conditions(tc.states), now) // said again, it is no news
			}
			got := Gate{Runtimes: &known{states: tc.states}, Told: told, Grace: grace}.NotReadyReason(tc.t, false)
			if (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
				t.Errorf("NotReadyReason = %q, want %q", got, tc.want)
			}
			told.note([]corev1.NodeCondition{
				{Type: workload.VMRuntimeReady, Status: "True"},
				{Type: workload.ContainerRuntimeReady, Status: "True"},
			}, now)
			if told.unready(tc.t, now.Add(time.Hour)) {
				t.Error("what became ready is still known as unready")
			}
		})
	}
}

// Nodes say the handlers of their runtimes in labels, and nothing that is not so any more.
func TestHandlersAreLabels(t *testing.T) {
	have := map[string]string{"runtime.a4s.io/runc": "true", "runtime.a4s.io/gone": "true",
		"runtime.a4s.io/crun": "no", "zone": "a"}
	states := []noderuntime.State{
		{Name: "containerd", Version: "containerd 2", Handlers: []string{"crun", "runc"}},
		{Name: "machines", Version: "a4s 1", Handlers: []string{"vm"}}}
	want := map[string]any{"runtime.a4s.io/crun": "true", "runtime.a4s.io/containerd": "true",
		"runtime.a4s.io/machines": "true", "runtime.a4s.io/vm": "true", "runtime.a4s.io/gone": nil}
	if got := handlerLabels(have, states); !maps.Equal(got, want) {
		t.Errorf("the changes are %v, want %v", got, want)
	}
	// A runtime that did not answer since the start takes nothing away, for its pods run.
	states[1].Version, states[1].Handlers = "", nil
	delete(want, "runtime.a4s.io/gone")
	delete(want, "runtime.a4s.io/vm")
	if got := handlerLabels(have, states); !maps.Equal(got, want) {
		t.Errorf("before all runtimes answered, the changes are %v, want %v", got, want)
	}
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("h%d", i))
	}
	if got := handlerLabels(nil, []noderuntime.State{{Name: "containerd", Handlers: many}}); len(got) != maxHandlers {
		t.Errorf("200 handlers make %d labels, want %d", len(got), maxHandlers)
	}
}
