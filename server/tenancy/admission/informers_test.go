package admission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// The informers of the server drop what a policy may ask its parameters for.
func TestParametersHaveInformersOfTheirOwn(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(&rest.Config{})
	server := informers.NewSharedInformerFactory(client, 0)
	f := narrow(server, client, interning.New())
	params, err := f.ForResource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	if err != nil {
		t.Fatal(err)
	}
	// Each call puts the same informer into another type.
	of := server.Core().V1().Namespaces().Informer().GetIndexer()
	if params.Informer().GetIndexer() == of {
		t.Error("parameters come from the informers of the server")
	}
	if f.Core().V1().Namespaces().Informer().GetIndexer() != of {
		t.Error("everything else does not")
	}
}
