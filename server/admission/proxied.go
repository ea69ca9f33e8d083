package admission

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/admission"

	"github.com/a4s-io/a4s/server/endpoints"
)

// Handles implements admission.Interface. Upstream's NamespaceLifecycle has no
// say in connections.
func (l *lifecycle) Handles(op admission.Operation) bool {
	return op == admission.Connect || l.Interface.Handles(op)
}

// checkProxied lets nobody come to another tenant's pod by the proxy of a pod
// that had its address: upstream goes by the status, which a pod that ended
// keeps for as long as its object is there.
func (g *guard) checkProxied(tenant string, attr admission.Attributes) error {
	if attr.GetResource().GroupResource() != (schema.GroupResource{Resource: "pods"}) || attr.GetSubresource() != "proxy" {
		return nil
	}
	_, name, _, ok := utilnet.SplitSchemeNamePort(attr.GetName())
	if !ok {
		return nil // upstream refuses it
	}
	obj, exists, err := g.pods.GetByKey(attr.GetNamespace() + "/" + name)
	if err != nil || !exists {
		return err // or it is so new that it has no address
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.HostNetwork || pod.Status.PodIP == "" {
		return nil
	}
	held, err := g.holds(tenant, pod.Status.PodIP, endpoints.Running)
	if err == nil && (!held || !endpoints.Running(pod)) {
		err = fmt.Errorf("pod %s has ended, so its address %s may be that of another pod by now", name, pod.Status.PodIP)
	}
	return err
}

// holds tells whether a pod of the tenant that counts, and nobody else's, has an
// address.
func (g *guard) holds(tenant, address string, counts func(*corev1.Pod) bool) (bool, error) {
	if ip, err := netip.ParseAddr(address); err == nil {
		address = ip.Unmap().String()
	}
	found, err := g.pods.ByIndex(podIPs, address)
	if err != nil {
		return false, err
	}
	var pods []*corev1.Pod
	for _, obj := range found {
		if pod, ok := obj.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return endpoints.Holds(tenant, pods, counts), nil
}
