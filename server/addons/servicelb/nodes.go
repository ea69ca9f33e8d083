package servicelb

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// Nodes are those of the cluster that are for the Services of a partition, whatever pool of nodes a Service
// names.
func Nodes(all []*corev1.Node, partition string) []*corev1.Node {
	s := state{partition: partition}
	s.use(all)
	return s.pool(&corev1.Service{})
}

// AddressesOf are the addresses by which those of the nodes are reached that are ready, in the order of
// their names.
func AddressesOf(nodes map[string]*corev1.Node) []corev1.LoadBalancerIngress {
	s, service := state{}, &corev1.Service{}
	service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	var sorted []*corev1.Node
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		sorted = append(sorted, nodes[name])
	}
	return s.ingress(service, sorted)
}

// TrimNode keeps of a node what is read here.
func TrimNode(k *corev1.Node) *corev1.Node {
	conditions := []corev1.NodeCondition{}
	for _, c := range k.Status.Conditions {
		if c.Type == corev1.NodeReady || c.Type == joinapi.NodeTakesIngress { // without its heartbeat
			conditions = append(conditions, corev1.NodeCondition{Type: c.Type, Status: c.Status})
		}
	}
	return &corev1.Node{
		TypeMeta: k.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: k.Name, UID: k.UID, ResourceVersion: k.ResourceVersion,
			Labels: k.Labels, DeletionTimestamp: k.DeletionTimestamp},
		Spec:   corev1.NodeSpec{ProviderID: k.Spec.ProviderID, Taints: k.Spec.Taints},
		Status: corev1.NodeStatus{Conditions: conditions, Addresses: k.Status.Addresses},
	}
}
