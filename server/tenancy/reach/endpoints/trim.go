package endpoints

//lint:file-ignore SA1019 Endpoints are deprecated, and tenants still write them

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// trimmer keeps of objects what is read here: of a pod its addresses and whether
// it has them, of endpoints the addresses of the cluster that a tenant wrote.
func trimmer(ranges []netip.Prefix, pool *interning.Pool) cache.TransformFunc {
	return func(obj any) (any, error) {
		switch o := obj.(type) {
		case *corev1.Pod:
			kept := &corev1.Pod{TypeMeta: o.TypeMeta, ObjectMeta: trimMeta(&o.ObjectMeta)}
			kept.DeletionTimestamp = o.DeletionTimestamp
			kept.Spec.HostNetwork = o.Spec.HostNetwork
			if Running(o) {
				kept.Status.PodIPs = o.Status.PodIPs
			}
			obj = kept
		case *discoveryv1.EndpointSlice:
			kept := &discoveryv1.EndpointSlice{TypeMeta: o.TypeMeta, ObjectMeta: trimMeta(&o.ObjectMeta)}
			if o.Labels[discoveryv1.LabelManagedBy] == managedBy {
				kept.Labels = map[string]string{discoveryv1.LabelServiceName: o.Labels[discoveryv1.LabelServiceName]}
			}
			if inside := sliceAddresses(ranges, o); len(inside) > 0 {
				kept.Endpoints = []discoveryv1.Endpoint{{Addresses: inside}}
			}
			obj = kept
		case *corev1.Endpoints:
			kept := &corev1.Endpoints{TypeMeta: o.TypeMeta, ObjectMeta: trimMeta(&o.ObjectMeta)}
			if inside := oldAddresses(ranges, o); len(inside) > 0 {
				subset := corev1.EndpointSubset{}
				for _, a := range inside {
					subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: a})
				}
				kept.Subsets = append(kept.Subsets, subset)
			}
			obj = kept
		case *corev1.Service:
			kept := &corev1.Service{TypeMeta: o.TypeMeta, ObjectMeta: trimMeta(&o.ObjectMeta)}
			if len(o.Spec.Selector) > 0 {
				kept.Spec.Selector = map[string]string{"some": "pods"}
			}
			obj = kept
		}
		return pool.Transform(obj)
	}
}

// managedBy is what upstream's controller writes into its slices.
const managedBy = "endpointslice-controller.k8s.io"

// samePod says that nothing changed in a pod that concerns its addresses.
func samePod(before, after any) bool {
	a, isPod := before.(*corev1.Pod)
	b, both := after.(*corev1.Pod)
	return isPod && both && a.UID == b.UID && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		slices.Equal(a.Status.PodIPs, b.Status.PodIPs)
}

func trimMeta(o *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}
}

// sliceAddresses are the addresses of the cluster in a slice of a tenant.
func sliceAddresses(ranges []netip.Prefix, slice *discoveryv1.EndpointSlice) []string {
	if ofSystem(slice.Namespace) {
		return nil
	}
	var out []string
	for _, e := range slice.Endpoints {
		for _, a := range e.Addresses {
			if inside, ok := Inside(ranges, a); ok {
				out = append(out, inside)
			}
		}
	}
	return distinct(out)
}

// oldAddresses are those in Endpoints of a tenant.
func oldAddresses(ranges []netip.Prefix, endpoints *corev1.Endpoints) []string {
	if ofSystem(endpoints.Namespace) {
		return nil
	}
	var out []string
	for _, subset := range endpoints.Subsets {
		for _, a := range slices.Concat(subset.Addresses, subset.NotReadyAddresses) {
			if inside, ok := Inside(ranges, a.IP); ok {
				out = append(out, inside)
			}
		}
	}
	return distinct(out)
}

func distinct(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

func ofSystem(namespace string) bool {
	tenant, _ := space.SplitNamespace(namespace)
	return space.IsSystem(tenant)
}
