package endpoints

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
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

// Inside reports whether an address is of the cluster: of a pod or of a Service.
// The form it returns is that in which addresses are compared.
func Inside(ranges []netip.Prefix, address string) (string, bool) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return "", false // a name, or what upstream refuses
	}
	ip = ip.Unmap()
	if !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(ip) }) {
		return "", false
	}
	return ip.String(), true
}

// Addresses are those that are a pod's alone, in the form in which they are
// compared.
func Addresses(pod *corev1.Pod) []string {
	var out []string
	for _, ip := range pod.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil && !pod.Spec.HostNetwork {
			out = append(out, addr.Unmap().String())
		}
	}
	return out
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
