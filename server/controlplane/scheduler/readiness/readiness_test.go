package readiness

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/a4s-io/a4s/internal/workload"
)

// stored is a cycle state that can only keep what this plugin leaves.
type stored struct {
	fwk.CycleState
	data map[fwk.StateKey]fwk.StateData
}

func (s stored) Write(k fwk.StateKey, v fwk.StateData) { s.data[k] = v }

func (s stored) Read(k fwk.StateKey) (fwk.StateData, error) {
	if v, ok := s.data[k]; ok {
		return v, nil
	}
	return nil, errors.New("absent")
}

type nodeInfo struct {
	fwk.NodeInfo
	node *corev1.Node
}

func (n nodeInfo) Node() *corev1.Node { return n.node }

// plugin knows the shipped classes, and "late" only by asking the server.
func plugin() *Plugin {
	find := func(known ...string) func(string) (*nodev1.RuntimeClass, error) {
		return func(name string) (*nodev1.RuntimeClass, error) {
			for _, k := range known {
				if k == name {
					return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name},
						Handler: strings.TrimSuffix(name, "-late")}, nil
				}
			}
			return nil, apierrors.NewNotFound(nodev1.Resource("runtimeclasses"), name)
		}
	}
	live := find("vm", "container", "vm-late")
	return &Plugin{cached: find("vm", "container"),
		live: func(_ context.Context, name string) (*nodev1.RuntimeClass, error) { return live(name) }}
}

// pod is of a tenant: what the scheduler sees are composite names.
func pod(class, annotation string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default.t1", UID: types.UID("1")}}
	if class != "" {
		p.Spec.RuntimeClassName = &class
	}
	if annotation != "" {
		p.Annotations = map[string]string{workload.Annotation: annotation}
	}
	return p
}

// node has conditions like "VmRuntimeReady=True".
func node(conditions ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for _, c := range conditions {
		name, status, _ := strings.Cut(c, "=")
		n.Status.Conditions = append(n.Status.Conditions,
			corev1.NodeCondition{Type: corev1.NodeConditionType(name), Status: corev1.ConditionStatus(status)})
	}
	return n
}

const (
	ready      = "Ready=True"
	containers = "ContainerRuntimeReady=True"
	vms        = "VmRuntimeReady=True"
)

func TestSeedCheckNodeRuntimeReadiness(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		node *corev1.Node
		want string // part of the reason; empty means that the node fits
	}{
		{"container", pod("", ""), node(ready, containers), ""},
		{"container by class", pod("container", ""), node(ready, containers), ""},
		{"the condition does not exist", pod("", ""), node(ready), "node(s) had no ready container runtime"},
		{"the condition is False", pod("", ""), node(ready, "ContainerRuntimeReady=False"),
			"node(s) had no ready container runtime (ContainerRuntimeReady is False)"},
		{"the condition is Unknown", pod("", ""), node(ready, "ContainerRuntimeReady=Unknown"),
			"ContainerRuntimeReady is Unknown"},
		{"vm by class", pod("vm", ""), node(ready, containers, vms), ""},
		{"vm by annotation", pod("", "vm"), node(ready, containers, vms), ""},
		{"no vm runtime", pod("vm", ""), node(ready, containers), "node(s) had no ready vm runtime"},
		{"vm runtime not ready", pod("", "vm"), node(ready, containers, "VmRuntimeReady=False"),
			"VmRuntimeReady is False"},
		{"a container does not need the vm runtime", pod("", ""), node(ready, containers, "VmRuntimeReady=False"), ""},
		{"vm without the primary", pod("vm", ""), node(ready, "ContainerRuntimeReady=False", vms),
			"no ready primary runtime"},
		{"vm on a node that is not ready", pod("vm", ""), node("Ready=False", containers, vms), "not become ready"},
		{"vm on a node that never reported", pod("vm", ""), node(containers, vms), "not become ready"},
		{"a container may make its node ready", pod("", ""), node("Ready=False", containers), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, state := plugin(), stored{data: map[fwk.StateKey]fwk.StateData{}}
			if _, status := p.PreFilter(t.Context(), state, tc.pod, nil); !status.IsSuccess() {
				t.Fatalf("PreFilter: %v", status)
			}
			status := p.Filter(t.Context(), state, tc.pod, nodeInfo{node: tc.node})
			switch {
			case tc.want == "" && !status.IsSuccess():
				t.Errorf("Filter: %v, want success", status)
			case tc.want != "" &&
				(status.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), tc.want)):
				t.Errorf("Filter: %v %q, want %q", status.Code(), status.Message(), tc.want)
			}
		})
	}
}

func TestPreFilterRefusesWhatHasNoType(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want string // part of the message; empty means success
	}{
		{"unknown type", pod("", "unikernel"), `"unikernel": want container or vm`},
		{"contradiction", pod("vm", "container"), `runtime class "vm" runs "vm"`},
		{"class is gone", pod("gone", ""), `"gone" not found`},
		{"class that only the server knows yet", pod("vm-late", ""), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, status := plugin().PreFilter(t.Context(), stored{data: map[fwk.StateKey]fwk.StateData{}}, tc.pod, nil)
			if tc.want == "" {
				if !status.IsSuccess() {
					t.Errorf("PreFilter: %v", status)
				}
				return
			}
			if status.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), tc.want) {
				t.Errorf("PreFilter: %v %q, want %q", status.Code(), status.Message(), tc.want)
			}
		})
	}
	failing := plugin()
	failing.cached = func(string) (*nodev1.RuntimeClass, error) { return nil, errors.New("broken") }
	if _, status := failing.PreFilter(t.Context(), stored{}, pod("vm", ""), nil); status.Code() != fwk.Error {
		t.Errorf("PreFilter that cannot look: %v, want an error, which is tried again", status)
	}
}

func TestQueueingHints(t *testing.T) {
	other := pod("", "vm")
	other.UID = "2"
	class := func(name string) *nodev1.RuntimeClass {
		return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	p := plugin()
	for _, tc := range []struct {
		name     string
		hint     fwk.QueueingHintFn
		pod      *corev1.Pod
		old, new any
		want     fwk.QueueingHint
	}{
		{"runtime becomes ready", p.afterNode, pod("vm", ""), node(ready, containers, "VmRuntimeReady=False"),
			node(ready, containers, vms), fwk.Queue},
		{"node becomes ready", p.afterNode, pod("vm", ""), node("Ready=False", containers, vms),
			node(ready, containers, vms), fwk.Queue},
		{"new node", p.afterNode, pod("vm", ""), nil, node(ready, containers, vms), fwk.Queue},
		{"runtime gets lost", p.afterNode, pod("vm", ""), node(ready, containers, vms),
			node(ready, containers, "VmRuntimeReady=False"), fwk.QueueSkip},
		{"another condition", p.afterNode, pod("vm", ""), node(ready, containers, vms),
			node(ready, containers, vms, "MemoryPressure=True"), fwk.QueueSkip},
		{"the other runtime", p.afterNode, pod("vm", ""), node(ready), node(ready, containers), fwk.QueueSkip},
		{"the pod itself is wrong", p.afterNode, pod("vm", "container"), nil,
			node(ready, containers, vms), fwk.QueueSkip},
		{"a class that is not known yet", p.afterNode, pod("vm-late", ""), nil,
			node(ready, containers, vms), fwk.Queue},
		{"its class comes", afterClass, pod("vm", ""), nil, class("vm"), fwk.Queue},
		{"another class comes", afterClass, pod("vm", ""), nil, class("x"), fwk.QueueSkip},
		{"a pod without a class", afterClass, pod("", ""), nil, class("x"), fwk.QueueSkip},
		{"its annotation changes", afterPod, pod("", "nonsense"), pod("", "nonsense"), pod("", "vm"), fwk.Queue},
		{"something else of it changes", afterPod, pod("", "vm"), pod("", "vm"), pod("x", "vm"), fwk.QueueSkip},
		{"another pod changes", afterPod, pod("", "nonsense"), pod("", "nonsense"), other, fwk.QueueSkip},
		{"a pod comes", afterPod, pod("", "vm"), nil, pod("", "vm"), fwk.QueueSkip},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// An error means Queue to the scheduler.
			got, err := tc.hint(klog.Background(), tc.pod, tc.old, tc.new)
			if got != tc.want {
				t.Errorf("hint %v (%v), want %v", got, err, tc.want)
			}
		})
	}
}
