package controllers

import (
	"errors"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	corev1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

// errNodesByUpstream is of settings that let upstream make the informers.
var errNodesByUpstream = errors.New("controllers of some nodes only cannot run with a port or an election of " +
	"their own: take secure-port and leader-elect out of --kube-controller-manager-arg")

// ofNodes are the controllers that keep nodes: what they see, they take for theirs.
// Others, such as taint eviction, garbage collection of pods and DaemonSets, are about the
// pods and need every node that pods are on.
func ofNodes() []string {
	return []string{names.NodeLifecycleController, names.NodeIpamController, names.TTLController}
}

// split takes the controllers of nodes out of all.
func split(all map[string]*app.ControllerDescriptor) (others, nodes map[string]*app.ControllerDescriptor) {
	others, nodes = maps.Clone(all), map[string]*app.ControllerDescriptor{}
	for _, name := range ofNodes() {
		if d, ok := all[name]; ok {
			nodes[name] = d
			delete(others, name)
		}
	}
	return others, nodes
}

// selectedNodes is a factory whose informer of nodes sees those of a selector only. All
// else is that of the factory within.
type selectedNodes struct {
	informers.SharedInformerFactory
	nodes informers.SharedInformerFactory
}

// selectNodes makes one. What it adds is started by startNodes.
func selectNodes(
	client kubernetes.Interface, f informers.SharedInformerFactory, resync app.ControllerContext,
	transform cache.TransformFunc, selector string,
) selectedNodes {
	return selectedNodes{f, informers.NewSharedInformerFactoryWithOptions(client, resync.ResyncPeriod(),
		informers.WithTransform(transform), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = selector
		}))}
}

// Core implements informers.SharedInformerFactory.
func (f selectedNodes) Core() core.Interface {
	return selectedCore{f.SharedInformerFactory.Core(), f.nodes}
}

type selectedCore struct {
	core.Interface
	nodes informers.SharedInformerFactory
}

// V1 implements core.Interface.
func (c selectedCore) V1() corev1.Interface { return selectedV1{c.Interface.V1(), c.nodes} }

type selectedV1 struct {
	corev1.Interface
	nodes informers.SharedInformerFactory
}

// Nodes implements corev1.Interface.
func (v selectedV1) Nodes() corev1.TypedNodeInformer { return v.nodes.Core().V1().Nodes() }
