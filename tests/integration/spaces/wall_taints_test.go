package spaces_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/workload"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
	"github.com/a4s-io/a4s/tests/hollownode"
	"github.com/a4s-io/a4s/tests/nstest"
)

// readyNode makes a node that takes containers, as the agent would say.
func (p *plane) readyNode(t *testing.T, name string) {
	t.Helper()
	ctx := t.Context()
	node, err := p.admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: quantity("4"),
		corev1.ResourceMemory: quantity("8Gi"),
		corev1.ResourcePods:   quantity("50"), "example.com/gpu": quantity("8")}
	node.Status.Allocatable = node.Status.Capacity
	now := metav1.Now()
	for _, of := range []corev1.NodeConditionType{corev1.NodeReady, workload.ContainerRuntimeReady} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: of,
			Status: corev1.ConditionTrue,
			Reason: "Test", LastHeartbeatTime: now, LastTransitionTime: now})
	}
	node.ResourceVersion = ""
	if _, err := p.admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.lives(t, name)
	eventually(t, "the node has no taints", func(ctx context.Context) (bool, error) {
		n, err := p.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(n.Spec.Taints) == 0, err
	})
}

// lives has a node say until the test ends that it is there, as its kubelet would: else the controllers take it for
// lost after less than a minute, and a slow machine is not through by then.
func (p *plane) lives(t *testing.T, name string) {
	t.Helper()
	node := p.node(t, name)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	running.Go(func() { hollownode.Live(ctx, node, p.admin) })
}

func (p *plane) patchNode(t *testing.T, name, patch string) {
	t.Helper()
	if _, err := p.admin.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestWallW13Taints: a taint of any key that an administrator chooses keeps a tenant's
// pods off a node, and so does cordon, whatever they tolerate. What programs tolerate
// by habit is not refused.
func TestWallW13Taints(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	p.readyNode(t, "n1")
	s := p.bareTenant(t, "t1")
	post(t, p.Admin, "/apis/node.k8s.io/v1/runtimeclasses", `{"metadata":{"name":"boxed"},"handler":"runsc",`+
		`"scheduling":{"tolerations":[{"key":"boxes","operator":"Exists"}]}}`)
	tolerates := func(of string) string { return `"tolerations":[` + of + `],` }
	const team, cordoned = `{"key":"team","operator":"Exists"}`,
		`{"key":"node.kubernetes.io/unschedulable","operator":"Exists"}`
	makes := func(spec string) *corev1.Pod {
		t.Helper()
		code, answer, pod := s.makesPod(t, "", podBody("", spec))
		if code != http.StatusCreated {
			t.Fatalf("%s: %d %.300s", spec, code, answer)
		}
		return pod
	}
	waits := func(pod *corev1.Pod) { t.Helper(); s.waitsFor(t, pod.Name, "node(s)") }

	p.patchNode(t, "n1", `{"spec":{"taints":[{"key":"team","value":"a","effect":"NoSchedule"}]}}`)
	hostile := makes(tolerates(team + `,{"key":"team","operator":"Equal","value":"a","effect":"NoSchedule"}`))
	for _, t2 := range hostile.Spec.Tolerations {
		if t2.Key == "team" {
			t.Errorf("the pod tolerates %+v", t2)
		}
	}
	waits(hostile)
	// An administrator's own pods, and a tenant that is allowed to.
	code, answer := do(t, p.Admin, http.MethodPost, inPods, podBody("", tolerates(team)), nil)
	if code != http.StatusCreated || !strings.Contains(answer, `"key":"team"`) {
		t.Errorf("an administrator's pod: %d %.300s", code, answer)
	}
	p.holds(t, s, allowances.Tolerations, "team", func() bool {
		_, answer, _ := s.makesPod(t, asDryRun, podBody("", tolerates(team)))
		return strings.Contains(answer, `"key":"team"`)
	})
	s.isPlaced(t, makes(tolerates(team)).Name)

	p.patchNode(t, "n1", `{"spec":{"taints":null,"unschedulable":true}}`)
	eventually(t, "the node to be cordoned", func(ctx context.Context) (bool, error) {
		n, err := p.admin.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
		return err == nil && len(n.Spec.Taints) == 1 && n.Spec.Taints[0].Key == corev1.TaintNodeUnschedulable, err
	})
	cordon := makes(tolerates(cordoned + `,` + team))
	waits(cordon)
	s.refusesTolerations(t)
	p.patchNode(t, "n1", `{"spec":{"unschedulable":false}}`)
	s.isPlaced(t, cordon.Name)

	// What an administrator put into a class, and the name of what a pod asks for.
	for spec, key := range map[string]string{
		`"runtimeClassName":"boxed",`: "boxes",
		`"initContainers":[{"name":"i","image":"i","resources":{"limits":{"example.com/gpu":1}}}],` +
			tolerates(`{"key":"example.com/gpu","operator":"Exists"}`): "example.com/gpu",
		tolerates(`{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute",` +
			`"tolerationSeconds":7}`): "node.kubernetes.io/not-ready",
	} {
		found := false
		for _, has := range makes(spec).Spec.Tolerations {
			found = found || has.Key == key
		}
		if !found {
			t.Errorf("%s: %s is not tolerated", spec, key)
		}
	}
	// Nor later: a pod can get more of them, and keeps what it has.
	const merge = "Content-Type: application/merge-patch+json"
	list, err := json.Marshal(append(cordon.Spec.Tolerations, corev1.Toleration{Key: "boxes", Operator: "Exists"}))
	if err != nil {
		t.Fatal(err)
	}
	code, answer = do(t, s.config, http.MethodPatch, inPods+"/"+cordon.Name,
		`{"spec":{"tolerations":`+string(list)+`}}`,
		[]string{merge})
	if code != http.StatusOK || strings.Contains(answer, "boxes") {
		t.Errorf("a toleration more: %d %.600s", code, answer)
	}
}

// refusesTolerations: those that are refused and not left out, and what a policy of
// the tenant adds behind everybody's back.
func (s *space) refusesTolerations(t *testing.T) {
	t.Helper()
	for _, of := range []string{`{"operator":"Exists"}`, `{"operator":"Exists","effect":"NoSchedule"}`,
		`{"key":"node-role.kubernetes.io/control-plane","operator":"Exists"}`,
		`{"key":"CriticalAddonsOnly","operator":"Exists"}`} {
		if code, answer, _ := s.makesPod(t, asDryRun, podBody("",
			`"tolerations":[`+of+`],`)); code != http.StatusForbidden {
			t.Errorf("%s: %d %.300s", of, code, answer)
		}
	}
	s.mutates(t, "pods", "has(object.metadata.labels)",
		`[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'seen': ''}}, JSONPatch{op: 'add', `+
			`path: '/spec/tolerations/-', value: Object.spec.tolerations{key: 'boxes', operator: 'Exists'}}]`)
	eventually(t, "a policy that adds a toleration to be judged", func(context.Context) (bool, error) {
		code, answer, pod := s.makesPod(t, asDryRun, podBody(`"labels":{"marked":""},`, ""))
		for _, has := range pod.Spec.Tolerations {
			if has.Key == "boxes" {
				t.Fatalf("a policy has added a toleration: %.600s", answer)
			}
		}
		_, seen := pod.Annotations["seen"]
		return seen || code == http.StatusForbidden && strings.Contains(answer, "boxes"), nil
	})
}
