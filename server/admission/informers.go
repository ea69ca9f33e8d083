package admission

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/space"
)

// systemOnly is a factory whose informers of webhook configurations and
// policies leave out those of tenants. Everything else is as it was.
type systemOnly struct {
	informers.SharedInformerFactory
	configurations informers.SharedInformerFactory
}

// narrow makes the factory that upstream's own plugins work with.
func narrow(f informers.SharedInformerFactory, client kubernetes.Interface) informers.SharedInformerFactory {
	return &systemOnly{
		SharedInformerFactory: f,
		configurations: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = "!" + space.Label
		})),
	}
}

// Admissionregistration implements informers.SharedInformerFactory.
func (s *systemOnly) Admissionregistration() admissionregistration.Interface {
	return s.configurations.Admissionregistration()
}

// Start implements informers.SharedInformerFactory.
func (s *systemOnly) Start(stop <-chan struct{}) {
	s.SharedInformerFactory.Start(stop)
	s.configurations.Start(stop)
}

// Shutdown implements informers.SharedInformerFactory.
func (s *systemOnly) Shutdown() {
	s.SharedInformerFactory.Shutdown()
	s.configurations.Shutdown()
}
