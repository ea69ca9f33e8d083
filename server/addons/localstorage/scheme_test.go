package localstorage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// TestSchemeOfClientsIsOnlyRead: the library's controller is made while clients run.
func TestSchemeOfClientsIsOnlyRead(t *testing.T) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			if _, _, err := scheme.Scheme.ObjectKinds(&corev1.Pod{}); err != nil {
				t.Error(err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for range 20 {
		controller.NewProvisionController(t.Context(), fake.NewClientset(), Provisioner, nil)
	}
	close(stop)
	<-stopped
}

func TestOtherSchemesGetTheCoreAPI(t *testing.T) {
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.ObjectKinds(&corev1.Pod{}); err != nil {
		t.Error(err)
	}
}
