package admission

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// systemOnly is a factory whose informers of webhook configurations and
// policies leave out those of tenants. Everything else is as it was.
type systemOnly struct {
	informers.SharedInformerFactory
	configurations informers.SharedInformerFactory
	// params are the informers of what policies take as parameters. A policy
	// may ask for everything, and so they keep what the others drop.
	params informers.SharedInformerFactory
}

// narrow makes the factory that upstream's own plugins work with.
func narrow(
	f informers.SharedInformerFactory, client kubernetes.Interface, pool *interning.Pool,
) informers.SharedInformerFactory {
	return &systemOnly{
		SharedInformerFactory: f,
		configurations: informers.NewSharedInformerFactoryWithOptions(client, 0,
			informers.WithTransform(pool.Transform), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
				o.LabelSelector = "!" + space.Label
			})),
		params: informers.NewSharedInformerFactory(client, 0),
	}
}

// Admissionregistration implements informers.SharedInformerFactory.
func (s *systemOnly) Admissionregistration() admissionregistration.Interface {
	return s.configurations.Admissionregistration()
}

// ForResource implements informers.SharedInformerFactory. Upstream's plugins
// ask it for parameters only, all else they ask for by its type.
func (s *systemOnly) ForResource(r schema.GroupVersionResource) (informers.GenericInformer, error) {
	return s.params.ForResource(r)
}

// Start implements informers.SharedInformerFactory.
func (s *systemOnly) Start(stop <-chan struct{}) {
	s.SharedInformerFactory.Start(stop)
	s.configurations.Start(stop)
	s.params.Start(stop)
}

// Shutdown implements informers.SharedInformerFactory.
func (s *systemOnly) Shutdown() {
	s.SharedInformerFactory.Shutdown()
	s.configurations.Shutdown()
	s.params.Shutdown()
}
