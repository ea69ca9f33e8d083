package nsindex

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// maker is upstream's function that makes the informer of a kind.
type maker func(kubernetes.Interface, string, internalinterfaces.InformerOptions) cache.SharedIndexInformer

// ServiceAccounts has the informer of the factory for service accounts be one of
// this package. It is to be called before anybody asked the factory for it.
func ServiceAccounts(f informers.SharedInformerFactory) {
	use(f, &corev1.ServiceAccount{}, coreinformers.NewServiceAccountInformerWithOptions)
}

// ConfigMaps is ServiceAccounts for config maps.
func ConfigMaps(f informers.SharedInformerFactory) {
	use(f, &corev1.ConfigMap{}, coreinformers.NewConfigMapInformerWithOptions)
}

// Drop takes the index by namespace from informers of which nobody wants all
// objects of a namespace, or whose objects are in none: upstream has one for all
// kinds. Listers that are asked nevertheless look at all objects. It is to be
// called before the informers start.
func Drop(informers ...cache.SharedIndexInformer) {
	for _, i := range informers {
		// It is the index' own map, and the one way to take something out of it.
		delete(i.GetIndexer().GetIndexers(), cache.NamespaceIndex)
	}
}

func use(f informers.SharedInformerFactory, example runtime.Object, upstream maker) {
	f.InformerFor(example, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return informer{upstream(client, metav1.NamespaceAll, internalinterfaces.InformerOptions{
			ResyncPeriod: resync, Indexers: cache.Indexers{cache.NamespaceIndex: setOfObject}, InformerName: f.InformerName(),
		})}
	})
}

// informer is one with a small index.
type informer struct{ cache.SharedIndexInformer }

// GetIndexer implements cache.SharedIndexInformer.
func (i informer) GetIndexer() cache.Indexer { return indexer{i.SharedIndexInformer.GetIndexer()} }
