package endpoints

//lint:file-ignore SA1019 Endpoints are deprecated, and tenants still write them

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
)

// trimmer keeps of objects what is read here: of a pod its addresses and whether
// it has them, of a node its addresses, of endpoints those in a tenant's space.
// What is outside of the cluster today may be inside tomorrow.
func trimmer(pool *interning.Pool) cache.TransformFunc {
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
			all, err := sliceAddresses(o)
			if err != nil {
				return nil, err
			}
			if len(all) > 0 {
				kept.Endpoints = []discoveryv1.Endpoint{{Addresses: all}}
			}
			obj = kept
		case *corev1.Endpoints:
			kept := &corev1.Endpoints{TypeMeta: o.TypeMeta, ObjectMeta: trimMeta(&o.ObjectMeta)}
			if all := oldAddresses(o); len(all) > 0 {
				subset := corev1.EndpointSubset{}
				for _, a := range all {
					subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: a})
				}
				kept.Subsets = append(kept.Subsets, subset)
			}
			obj = kept
		case *corev1.Node:
			kept := &corev1.Node{TypeMeta: o.TypeMeta, ObjectMeta: trimMeta(&o.ObjectMeta)}
			kept.Status.Addresses = o.Status.Addresses
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

// same says that nothing changed in a pod or a node that concerns its addresses.
func same(before, after any) bool {
	switch a := before.(type) {
	case *corev1.Pod:
		b, both := after.(*corev1.Pod)
		return both && a.UID == b.UID && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
			slices.Equal(a.Status.PodIPs, b.Status.PodIPs)
	case *corev1.Node:
		b, both := after.(*corev1.Node)
		return both && slices.Equal(a.Status.Addresses, b.Status.Addresses)
	}
	return false
}

func trimMeta(o *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}
}

// sliceAddresses are the addresses in a slice of a tenant, or of the API's own.
func sliceAddresses(slice *discoveryv1.EndpointSlice) ([]string, error) {
	if ofSystem(slice.Namespace) {
		return OfServers(slice)
	}
	return written(slice), nil
}

// oldAddresses are those in Endpoints of a tenant.
func oldAddresses(endpoints *corev1.Endpoints) []string {
	if ofSystem(endpoints.Namespace) {
		return nil
	}
	var out []string
	for _, subset := range endpoints.Subsets {
		for _, a := range slices.Concat(subset.Addresses, subset.NotReadyAddresses) {
			if ip, ok := inside.Parse(a.IP); ok {
				out = append(out, ip.String())
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
