package endpoints

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
)

// Living reports whether a pod has its address and keeps it for now. That of a
// pod which is being deleted is given away before its object is gone, and
// objects of pods that ended may stay for ever.
func Living(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && Running(pod) }

// Running is Living for what drains: a pod that is being deleted counts until
// its containers have ended.
func Running(pod *corev1.Pod) bool {
	return !pod.Spec.HostNetwork && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// Holds reports whether an address that pods claim is the tenant's: one of theirs
// that counts has it, and nobody else's does.
func Holds(tenant string, pods []*corev1.Pod, counts func(*corev1.Pod) bool) bool {
	own := false
	for _, pod := range pods {
		of, _ := space.SplitNamespace(pod.Namespace)
		switch {
		case of == tenant:
			own = own || counts(pod)
		case Running(pod):
			return false // it is on its way from one to the other
		}
	}
	return own
}

// Addresses are those that are a pod's alone, in the form in which they are
// compared.
func Addresses(pod *corev1.Pod) []string {
	var out []string
	for _, ip := range pod.Status.PodIPs {
		if addr, ok := inside.Parse(ip.IP); ok && !pod.Spec.HostNetwork {
			out = append(out, addr.String())
		}
	}
	return out
}

// OfNodes are the addresses of a node, in that form: an index.
func OfNodes(obj any) (out []string, err error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil, nil
	}
	for _, a := range node.Status.Addresses {
		if addr, ok := inside.Parse(a.Address); ok {
			out = append(out, addr.String())
		}
	}
	return out, nil
}

// apiService is the Service of the API itself, whose slices have the addresses of
// all servers of the partition, whatever their group.
const apiService = "kubernetes"

// OfServers are the addresses in slices of the API itself, in that form: an index.
func OfServers(obj any) (out []string, err error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok || slice.Namespace != metav1.NamespaceDefault ||
		slice.Name != apiService && slice.Labels[discoveryv1.LabelServiceName] != apiService {
		return nil, nil
	}
	return written(slice), nil
}

// written are the addresses in a slice.
func written(slice *discoveryv1.EndpointSlice) (out []string) {
	for _, e := range slice.Endpoints {
		for _, a := range e.Addresses {
			if ip, ok := inside.Parse(a); ok {
				out = append(out, ip.String())
			}
		}
	}
	return distinct(out)
}

// Held is Holds for the pods that an index has at an address.
func Held(tenant string, pods cache.Indexer, index, address string, counts func(*corev1.Pod) bool) (bool, error) {
	found, err := pods.ByIndex(index, address)
	if err != nil {
		return false, fmt.Errorf("looking for the pod at %s: %w", address, err)
	}
	var claims []*corev1.Pod
	for _, obj := range found {
		if pod, ok := obj.(*corev1.Pod); ok {
			claims = append(claims, pod)
		}
	}
	return Holds(tenant, claims, counts), nil
}
