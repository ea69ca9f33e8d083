package ingress

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// TestTakenPortsAreReported: no Ingress has the address of a node whose ports something else has.
func TestTakenPortsAreReported(t *testing.T) {
	taken := listen(t, "127.0.0.1:0")
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "True"}}}})
	n := New(Options{RunDir: t.TempDir(), HTTP: taken.Addr().String(), HTTPS: free(t), Output: t.Output()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Report(client, "n1").Run(ctx, func() {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	condition := func() *corev1.NodeCondition {
		node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady
		}) {
			t.Fatalf("another condition is gone: %+v", node.Status.Conditions)
		}
		for i := range node.Status.Conditions {
			if node.Status.Conditions[i].Type == joinapi.NodeTakesIngress {
				return &node.Status.Conditions[i]
			}
		}
		return nil
	}
	until := func(what string, holds func() bool) {
		t.Helper()
		for late := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("timed out until %s; the condition is %+v", what, condition())
			}
		}
	}
	if err := n.serve(ctx); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("the node serves: %v", err)
	}
	until("the Node says so", func() bool {
		c := condition()
		return c != nil && c.Status == corev1.ConditionFalse && c.Reason == reasonPorts && c.Message != ""
	})
	taken.Close() //nolint:errcheck // the next one would fail
	l, err := n.listen(ctx)
	if err != nil {
		t.Fatal(err)
	}
	closeAll(l)
	until("the Node does not say so any more", func() bool { return condition() == nil })
}
