package spaces_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/workload"
	"github.com/a4s-io/a4s/tests/nstest"
)

// TestPodsWaitForTheRuntimeOfTheirType has no kubelet: what a node says of its
// runtimes the test says.
func TestPodsWaitForTheRuntimeOfTheirType(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	s := p.tenant(t, "t1")
	ctx := t.Context()
	s.seesRuntimeClasses(t)

	node, err := p.admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	capacity := corev1.ResourceList{corev1.ResourceCPU: quantity("4"), corev1.ResourceMemory: quantity("8Gi"),
		corev1.ResourcePods: quantity("10")}
	node.Status.Capacity, node.Status.Allocatable = capacity, capacity
	say := func(what corev1.NodeConditionType, status corev1.ConditionStatus) {
		t.Helper()
		now := metav1.Now()
		kept := node.Status.Conditions[:0]
		for _, c := range node.Status.Conditions {
			if c.Type != what {
				kept = append(kept, c)
			}
		}
		node.Status.Conditions = append(kept, corev1.NodeCondition{Type: what, Status: status, Reason: "Test",
			LastHeartbeatTime: now, LastTransitionTime: now})
		node.ResourceVersion = ""
		if node, err = p.admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	say(corev1.NodeReady, corev1.ConditionTrue)
	p.lives(t, "n1")
	eventually(t, "the node has no taints", func(ctx context.Context) (bool, error) {
		n, err := p.admin.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
		return err == nil && len(n.Spec.Taints) == 0, err
	})

	plain := s.makePod(t, "plain", "", "")
	byClass := s.makePod(t, "by-class", "vm", "")
	s.makePod(t, "by-annotation", "", "vm")
	// A tenant's pod is refused if it is of no type, one of the system waits.
	system := p.as(t, "system", p.Admin)
	system.makePod(t, "unknown", "", "unikernel")
	system.makePod(t, "contradiction", "vm", "container")
	if len(plain.Spec.Overhead) != 0 || byClass.Spec.Overhead.Memory().IsZero() {
		t.Errorf("overhead of a container %v, of a virtual machine %v", plain.Spec.Overhead, byClass.Spec.Overhead)
	}
	s.waitsFor(t, "plain", "0/1 nodes are available: 1 node(s) had no ready container runtime (none is registered)")
	s.waitsFor(t, "by-class", "0/1 nodes are available: 1 node(s) had no ready vm runtime (none is registered)")
	s.waitsFor(t, "by-annotation", "1 node(s) had no ready vm runtime (none is registered)")
	system.waitsFor(t, "unknown", `unknown workload type "unikernel": want container or vm`)
	system.waitsFor(t, "contradiction", `annotation a4s.io/workload-type is "container", runtime class "vm" runs "vm"`)

	// The primary is away: no virtual machine.
	say(workload.VMRuntimeReady, corev1.ConditionTrue)
	withoutPrimary := s.makeWaiting(t, "without-primary",
		"1 node(s) had no ready primary runtime for a pod of type vm (none is registered)")
	say(workload.VMRuntimeReady, corev1.ConditionUnknown)
	say(workload.ContainerRuntimeReady, corev1.ConditionTrue)
	s.isPlaced(t, "plain")
	s.makePod(t, "silent", "vm", "")
	s.waitsFor(t, "silent", "1 node(s) had no ready vm runtime (VmRuntimeReady is Unknown: Test)")
	say(workload.VMRuntimeReady, corev1.ConditionTrue)
	for _, name := range []string{"by-class", "by-annotation", withoutPrimary, "silent"} {
		s.isPlaced(t, name)
	}

	// A pod that is put right is tried again.
	patch := []byte(`{"metadata":{"annotations":{"` + workload.Annotation + `":"vm"}}}`)
	for _, name := range []string{"unknown", "contradiction"} {
		if _, err := system.client.CoreV1().Pods("default").
			Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		system.isPlaced(t, name)
	}
}

func (s *space) seesRuntimeClasses(t *testing.T) {
	t.Helper()
	list, err := s.client.NodeV1().RuntimeClasses().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range list.Items {
		names[c.Name] = true
	}
	if !names["vm"] || !names["container"] {
		t.Errorf("a tenant sees the runtime classes %v", names)
	}
	if _, err := s.client.NodeV1().RuntimeClasses().Create(t.Context(),
		&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Handler: "vm"},
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a tenant that makes a runtime class gets %v, want forbidden", err)
	}
}

// makePod makes a pod of a class and with an annotation, if they are not empty.
func (s *space) makePod(t *testing.T, name, class, annotation string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}}}
	if class != "" {
		pod.Spec.RuntimeClassName = &class
	}
	if annotation != "" {
		pod.Annotations = map[string]string{workload.Annotation: annotation}
	}
	made, err := s.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// waitsFor waits until the pod could not be placed for this reason.
func (s *space) waitsFor(t *testing.T, pod, reason string) {
	t.Helper()
	eventually(t, "pod "+pod+" waits because of "+reason, func(ctx context.Context) (bool, error) {
		got, err := s.client.CoreV1().Pods("default").Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if got.Spec.NodeName != "" {
			t.Fatalf("pod %s was placed on %s", pod, got.Spec.NodeName)
		}
		said, err := s.whyWaiting(ctx, pod)
		return strings.Contains(said, reason), err
	})
}

// whyWaiting is what events say why a pod could not be placed.
func (s *space) whyWaiting(ctx context.Context, pod string) (string, error) {
	events, err := s.client.CoreV1().Events("default").List(ctx,
		metav1.ListOptions{FieldSelector: "reason=FailedScheduling,involvedObject.name=" + pod})
	if err != nil {
		return "", err
	}
	var said []string
	for _, e := range events.Items {
		said = append(said, e.Message)
	}
	return strings.Join(said, "\n"), nil
}

// makeWaiting makes virtual machines until one waits for this reason, and returns its name. The
// scheduler looks at a pod once: one that it looked at before it saw what the node says has
// another reason.
func (s *space) makeWaiting(t *testing.T, prefix, reason string) string {
	t.Helper()
	var name string
	eventually(t, "a pod "+prefix+" waits because of "+reason, func(ctx context.Context) (bool, error) {
		if name == "" {
			name = s.makePod(t, fmt.Sprintf("%s-%d", prefix, time.Now().UnixNano()), "vm", "").Name
		}
		said, err := s.whyWaiting(ctx, name)
		if err != nil || said == "" || strings.Contains(said, reason) {
			return said != "", err
		}
		t.Logf("pod %s waits because of %s", name, said)
		err = s.client.CoreV1().Pods("default").Delete(ctx, name, *metav1.NewDeleteOptions(0))
		name = ""
		return false, err
	})
	return name
}

// isPlaced waits for the pod to be placed. The scheduler looks at what nothing
// woke after minutes only.
func (s *space) isPlaced(t *testing.T, pod string) {
	t.Helper()
	since := time.Now()
	eventually(t, "pod "+pod+" is placed", func(ctx context.Context) (bool, error) {
		got, err := s.client.CoreV1().Pods("default").Get(ctx, pod, metav1.GetOptions{})
		return err == nil && got.Spec.NodeName == "n1", err
	})
	t.Logf("pod %s was placed after %s", pod, time.Since(since).Round(time.Millisecond))
}
