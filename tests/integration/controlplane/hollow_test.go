package controlplane_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/a4s-io/a4s/tests/bench/hollow"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// TestHollowNodes makes sure that benchmarks measure what they mean to: pods go to
// hollow nodes, run, and go again.
func TestHollowNodes(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, settings(t.TempDir()))
	ctx, stop := context.WithCancel(t.Context())
	const first, nodes, pods = 7, 3, 6
	access := func(user string, groups ...string) (*rest.Config, error) { return p.User(t, user, groups, nil), nil }
	fleet, err := hollow.Start(ctx, hollow.Options{First: first, Nodes: nodes, Access: access})
	if err != nil {
		t.Fatal(err)
	}
	planes.AwaitAccount(t, p.Admin, metav1.NamespaceDefault)

	labels := map[string]string{"app": "web"}
	deployments := p.client.AppsV1().Deployments(metav1.NamespaceDefault)
	if _, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](pods),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}}},
			},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pods that are ready", func(ctx context.Context) (bool, error) {
		d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == pods, nil
	})
	list, err := p.client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[string]string{}
	for _, pod := range list.Items {
		if !strings.HasPrefix(pod.Spec.NodeName, "hollow-0000") || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("pod %s is %s on node %q", pod.Name, pod.Status.Phase, pod.Spec.NodeName)
		}
		if other := addresses[pod.Status.PodIP]; other != "" {
			t.Errorf("pods %s and %s have the address %s", pod.Name, other, pod.Status.PodIP)
		}
		addresses[pod.Status.PodIP] = pod.Name
	}
	if len(list.Items) != pods {
		t.Errorf("there are %d pods, want %d", len(list.Items), pods)
	}

	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := deployments.Delete(t.Context(), "web", background); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no pods", func(ctx context.Context) (bool, error) {
		list, err := p.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, nil
	})

	leases := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	for i := range nodes {
		name := hollow.Name(first + i)
		var made *coordinationv1.Lease
		eventually(t, "a lease of "+name, func(ctx context.Context) (_ bool, err error) {
			made, err = leases.Get(ctx, name, metav1.GetOptions{})
			return err == nil, ignoreNotFound(err)
		})
		eventually(t, fmt.Sprintf("a renewed lease of %s", name), func(ctx context.Context) (bool, error) {
			now, err := leases.Get(ctx, name, metav1.GetOptions{})
			return err == nil && now.Spec.RenewTime.After(made.Spec.RenewTime.Time), nil
		})
	}

	stop()
	fleet.Wait()
	if n, last := fleet.Failures(); n > 0 {
		t.Errorf("%d requests failed, the last one: %v", n, last)
	}
}
