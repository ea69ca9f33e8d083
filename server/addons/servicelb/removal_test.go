package servicelb

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/cloud-provider/service/helpers"
)

// What the load balancer gave is taken back, and nothing of another one.
func TestTakeBack(t *testing.T) {
	finalizer := func(s *corev1.Service) { s.Finalizers = []string{helpers.LoadBalancerCleanupFinalizer} }
	client := fake.NewClientset(
		node("a", "192.0.2.1", true, nil),
		svc("default", "ours", 1, []int32{80}, has("192.0.2.1"), finalizer),
		svc("default", "refused", 1, []int32{80}, finalizer),
		svc("default", "theirs", 1, []int32{80}, has("198.51.100.7"), finalizer),
	)
	if err := (Options{Client: client}).takeBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, left := range map[string]int{"ours": 0, "refused": 0, "theirs": 1} {
		s, err := client.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Finalizers) != left || len(s.Status.LoadBalancer.Ingress) != left {
			t.Errorf("%s has %v, %v", name, s.Finalizers, s.Status.LoadBalancer.Ingress)
		}
	}
}
