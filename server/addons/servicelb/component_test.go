package servicelb

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// The status follows endpoints and nodes, which upstream's controller does not
// look at, and a Service that turns into another type is let go.
func TestStatusFollows(t *testing.T) {
	slice := func(node string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1",
				Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			Endpoints: []discoveryv1.Endpoint{{NodeName: &node}},
		}
	}
	client := fake.NewClientset(node("a", "192.0.2.1", true, nil), node("b", "192.0.2.2", true, nil), slice("a"),
		svc("default", "web", 1, []int32{80}, local))
	watching := make(chan struct{}, 3)
	client.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(a.GetResource(), a.GetNamespace())
		watching <- struct{}{}
		return true, w, err
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- New(Options{Client: client, Rules: &Rules{}, Pool: interning.New(),
			Log: logrus.WithField("component", Name)}).Run(ctx, func() {})
	}()
	for range 3 {
		<-watching // the fake does not tell what happened before
	}
	await := func(what string, want func(*corev1.Service) bool) {
		t.Helper()
		var last *corev1.Service
		for deadline := time.Now().Add(2 * time.Minute); time.Now().
			Before(deadline); time.Sleep(5 * time.Millisecond) {
			s, err := client.CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if last = s; want(s) {
				return
			}
		}
		t.Fatalf("timed out until %s: %v, %v", what, last.Finalizers, last.Status.LoadBalancer.Ingress)
	}
	at := func(ips ...string) func(*corev1.Service) bool {
		return func(s *corev1.Service) bool {
			var got []string
			for _, i := range s.Status.LoadBalancer.Ingress {
				got = append(got, i.IP)
			}
			return fmt.Sprint(got) == fmt.Sprint(ips)
		}
	}
	await("it is where its pod is", func(s *corev1.Service) bool {
		return len(s.Finalizers) == 1 && at("192.0.2.1")(s)
	})
	if _, err := client.DiscoveryV1().EndpointSlices("default").
		Update(ctx, slice("b"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await("it went with its pod", at("192.0.2.2"))
	if _, err := client.CoreV1().Nodes().Update(ctx, node("b", "192.0.2.2", false, nil),
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await("it has lost its node", at())
	if _, err := client.CoreV1().Nodes().Update(ctx, node("b", "192.0.2.2", true, nil),
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await("it has its node back", at("192.0.2.2"))
	s, err := client.CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Spec.Type = corev1.ServiceTypeClusterIP
	if _, err := client.CoreV1().Services("default").Update(ctx, s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await("it is let go", func(s *corev1.Service) bool { return len(s.Finalizers) == 0 && at()(s) })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
