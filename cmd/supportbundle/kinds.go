package supportbundle

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// collection is a kind whose objects are taken.
type collection struct{ root, resource string }

// ofCluster are the kinds of the cluster itself.
func ofCluster() []collection {
	return []collection{
		{"/api/v1", "nodes"},
		{"/api/v1", "tenants"},
		{"/api/v1", "tenanttemplates"},
		{"/api/v1", "datapartitionconfigs"},
		{"/api/v1", "partitions"},
		{"/api/v1", "tenantplacements"},
		{"/apis/node.k8s.io/v1", "runtimeclasses"},
		{"/apis/scheduling.k8s.io/v1", "priorityclasses"},
		{"/apis/storage.k8s.io/v1", "csidrivers"},
		{"/apis/storage.k8s.io/v1", "storageclasses"},
		{"/apis/storage.k8s.io/v1", "volumeattachments"},
		{"/apis/networking.k8s.io/v1", "ingressclasses"},
	}
}

// ofSpace are the kinds of a space. Secrets are none of them, nor are custom resources, of which
// nobody knows which fields are secret.
func ofSpace() []collection {
	return []collection{
		{"/api/v1", "namespaces"},
		{"/api/v1", "events"},
		{"/api/v1", "pods"},
		{"/api/v1", "services"},
		{"/api/v1", "configmaps"},
		{"/api/v1", "serviceaccounts"},
		{"/api/v1", "persistentvolumeclaims"},
		{"/api/v1", "persistentvolumes"},
		{"/api/v1", "resourcequotas"},
		{"/api/v1", "limitranges"},
		{"/api/v1", "tenantaccesses"}, // those of tenants are in their spaces
		{"/apis/apps/v1", "deployments"},
		{"/apis/apps/v1", "statefulsets"},
		{"/apis/apps/v1", "daemonsets"},
		{"/apis/apps/v1", "replicasets"},
		{"/apis/batch/v1", "jobs"},
		{"/apis/batch/v1", "cronjobs"},
		{"/apis/autoscaling/v2", "horizontalpodautoscalers"},
		{"/apis/policy/v1", "poddisruptionbudgets"},
		{"/apis/networking.k8s.io/v1", "ingresses"},
		{"/apis/networking.k8s.io/v1", "networkpolicies"},
		{"/apis/discovery.k8s.io/v1", "endpointslices"},
		{"/apis/coordination.k8s.io/v1", "leases"},
		{"/apis/admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"},
		{"/apis/admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"},
	}
}

// newScheme has the types of all of them.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientscheme.AddToScheme, tenantapi.AddToScheme, partitionapi.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// decoderOf reads answers of the API.
func decoderOf(scheme *runtime.Scheme) runtime.Decoder {
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}
