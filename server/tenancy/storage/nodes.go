package storage

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// Whoever reads nodes in the space of a tenant sees of them what
// kinds.NodeFields shows. Whether they may is for the authorizer to say.

// reducesNodes reports whether a request sees nodes so. Upstream itself reads the
// node of a pod on behalf of requests for other resources, and needs its address.
func (m *objectKeys) reducesNodes(ctx context.Context) bool {
	if !kinds.IsNodes(m.resource.Group, m.resource.Resource) {
		return false
	}
	addressed, ok := space.FromContext(ctx)
	if !ok || space.IsSystem(addressed) {
		return false
	}
	info, ok := request.RequestInfoFrom(ctx)
	return !ok || kinds.IsNodes(info.APIGroup, info.Resource)
}

// reduceNodes replaces what was read, one or a list, by what is shown.
func reduceNodes(obj runtime.Object) {
	switch o := obj.(type) {
	case *core.Node:
		*o = *shownNode(o)
	case *core.NodeList:
		for i := range o.Items {
			o.Items[i] = *shownNode(&o.Items[i])
		}
	}
}

// reducedNode is reduceNodes for the event of a watch: anything else than a node
// is not shown.
func reducedNode(obj runtime.Object) runtime.Object {
	node, ok := obj.(*core.Node)
	if !ok {
		return &core.Node{}
	}
	return shownNode(node)
}

// shownNode is a node with the fields that are shown. It is made anew, so that
// what is not named here is not shown.
func shownNode(n *core.Node) *core.Node {
	info := n.Status.NodeInfo
	shown := &core.Node{
		TypeMeta: n.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels,
			CreationTimestamp: n.CreationTimestamp, DeletionTimestamp: n.DeletionTimestamp,
		},
		Spec: core.NodeSpec{Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints},
		Status: core.NodeStatus{
			Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable,
			NodeInfo: core.NodeSystemInfo{
				KernelVersion: info.KernelVersion, OSImage: info.OSImage,
				ContainerRuntimeVersion: info.ContainerRuntimeVersion,
				KubeletVersion:          info.KubeletVersion, OperatingSystem: info.OperatingSystem,
				Architecture: info.Architecture,
			},
		},
	}
	for _, c := range n.Status.Conditions {
		shown.Status.Conditions = append(shown.Status.Conditions, core.NodeCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason,
			LastHeartbeatTime: c.LastHeartbeatTime, LastTransitionTime: c.LastTransitionTime,
		})
	}
	return shown
}
