package partitionfaults_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/tests/hollownode"
)

// hollow makes a node of 4 CPUs, with nothing behind it, that says until the test ends that
// it is there, to whatever server answers.
func hollow(t *testing.T, servers []*server, name string) { hollowWith(t, servers, name, nil) }

// hollowWith is hollow for a node with labels of its own.
func hollowWith(t *testing.T, servers []*server, name string, labels map[string]string) {
	t.Helper()
	made, err := servers[0].client.CoreV1().Nodes().Create(t.Context(), hollownode.New(name, labels),
		metav1.CreateOptions{})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	var clients []kubernetes.Interface
	for _, s := range servers {
		clients = append(clients, s.client)
	}
	running.Go(func() { hollownode.Live(ctx, made, clients...) })
}

// pod asks for a tenth of a CPU.
func pod(name string) *corev1.Pod {
	zero := int64(0)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: &zero,
		Containers: []corev1.Container{{Name: "c", Image: "none.invalid/none:1",
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}}}}}
}

// leader is the server that leads those of its partition.
func leader(ctx context.Context, servers []*server) (*server, error) {
	for _, asked := range servers {
		lease, err := asked.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, "a4s-controllers",
			metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		for _, s := range servers {
			if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == s.name {
				return s, nil
			}
		}
	}
	return nil, errors.New("nobody leads")
}
