package endpoints

//lint:file-ignore SA1019 Endpoints are deprecated, and tenants still write them

import (
	"errors"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
)

// TestWallV12AddressesAreTakenOffWhateverTheObject: an object that its tenant
// made so large that nothing can be written into it is emptied.
func TestWallV12AddressesAreTakenOffWhateverTheObject(t *testing.T) {
	for name, refusal := range map[string]error{
		"":                 nil,
		"by the API":       apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
		"by the datastore": apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
	} {
		meta := metav1.ObjectMeta{Namespace: "default.a", Name: "x", Annotations: map[string]string{"big": "..."}}
		client := fake.NewClientset(
			&discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints: []discoveryv1.Endpoint{
					{Addresses: []string{"10.42.0.5", "10.42.0.6"}}, {Addresses: []string{"10.42.0.5"}},
					{Addresses: []string{"192.0.2.7"}},
				}},
			&corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{
				{Addresses: []corev1.EndpointAddress{{IP: "10.42.0.5"}},
					NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.42.0.5"}}},
				{Addresses: []corev1.EndpointAddress{{IP: "10.42.0.6"}},
					NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.42.0.5"}}},
			}},
		)
		client.PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			o, ok := action.(clienttesting.UpdateAction).GetObject().(metav1.Object)
			return refusal != nil && ok && len(o.GetAnnotations()) > 0, nil, refusal
		})
		c := &controller{Options: Options{Client: client,
			Inside: inside.New([]netip.Prefix{netip.MustParsePrefix("10.42.0.0/16")}, nil)}}
		for _, k := range []kind{slice, old} {
			if err := c.without(t.Context(), key{kind: k, namespace: "default.a", name: "x"},
				map[string]bool{"10.42.0.5": true}); err != nil {
				t.Errorf("refused %s: %v", name, err)
			}
		}
		s, err := client.DiscoveryV1().EndpointSlices("default.a").Get(t.Context(), "x", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := client.CoreV1().Endpoints("default.a").Get(t.Context(), "x", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if refusal != nil {
			if len(s.Endpoints)+len(e.Subsets) > 0 {
				t.Errorf("refused %s: %v, %v are left", name, s.Endpoints, e.Subsets)
			}
			continue
		}
		if len(s.Endpoints) != 2 || len(s.Endpoints[0].Addresses) != 1 || s.Endpoints[0].Addresses[0] != "10.42.0.6" {
			t.Errorf("left in the slice: %v", s.Endpoints)
		}
		if len(e.Subsets) != 1 || len(e.Subsets[0].NotReadyAddresses) != 0 || len(e.Subsets[0].Addresses) != 1 {
			t.Errorf("left in the Endpoints: %v", e.Subsets)
		}
	}
}
