package members

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Its kubelet and controllers write to a new node as well: a conflict does not
// end the server.
func TestHoldTriesAgainAfterAConflict(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	conflicts := 2
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		if conflicts == 0 {
			return false, nil, nil
		}
		conflicts--
		return true, nil,
			apierrors.NewConflict(corev1.Resource("nodes"), "n1", errors.New("the object has been modified"))
	})
	if err := Hold(t.Context(), client, "n1"); err != nil {
		t.Fatal(err)
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil || conflicts != 0 || !slices.Contains(node.Finalizers, Finalizer) {
		t.Errorf("%d conflicts are left, %v, %v", conflicts, node.Finalizers, err)
	}
	// Once is enough.
	if err := Hold(t.Context(), client, "n1"); err != nil {
		t.Error(err)
	}
}
