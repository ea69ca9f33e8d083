package controllers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"github.com/a4s-io/a4s/server/controlplane/controllers/gate"
	"github.com/a4s-io/a4s/server/controlplane/noderanges"
)

// errByUpstream is of settings that let upstream make the informers.
var errByUpstream = errors.New("the controllers of nodes cannot be kept from the nodes of other partitions with " +
	"a port or an election of their own: take secure-port and leader-elect out of --kube-controller-manager-arg")

// ofNodes are the controllers that keep nodes: what they see, they take for theirs.
// Others, such as taint eviction, garbage collection of pods and DaemonSets, are about the
// pods and need every node that pods are on.
func ofNodes() []string {
	return []string{names.NodeLifecycleController, names.NodeIpamController, names.TTLController}
}

// split takes the wanted controllers out of all.
func split(
	all map[string]*app.ControllerDescriptor, wanted []string,
) (others, nodes map[string]*app.ControllerDescriptor) {
	others, nodes = maps.Clone(all), map[string]*app.ControllerDescriptor{}
	for _, name := range wanted {
		if d, ok := all[name]; ok {
			nodes[name] = d
			delete(others, name)
		}
	}
	return others, nodes
}

// withoutCopies is what controllers are made with that do not see nodes with a label: not
// by the informers, which stay those of all controllers and cost nothing more, and not by
// a list, with which the one of address ranges begins.
func withoutCopies(cc app.ControllerContext, label string) app.ControllerContext {
	cc.InformerFactory = ownFactory{cc.InformerFactory, label}
	cc.ClientBuilder = listBuilder{cc.ClientBuilder, lists{label: label}}
	return cc
}

// withFitRanges is what the controller of address ranges is made with: it ends, and all others
// with it, when the list that it begins with has a node with a range that it cannot have. It
// is not shown that range, and later says of the node that it cannot be had.
func withFitRanges(cc app.ControllerContext, in []noderanges.Range, log *logrus.Entry) app.ControllerContext {
	cc.ClientBuilder = listBuilder{cc.ClientBuilder, lists{ranges: in, log: log}}
	return cc
}

// own reports whether an object does not have the label.
func own(label string, obj any) bool {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return true
	}
	_, copied := m.GetLabels()[label]
	return !copied
}

type ownFactory struct {
	informers.SharedInformerFactory
	label string
}

// Core implements informers.SharedInformerFactory.
func (f ownFactory) Core() core.Interface { return ownGroup{f.SharedInformerFactory.Core(), f.label} }

type ownGroup struct {
	core.Interface
	label string
}

// V1 implements core.Interface.
func (g ownGroup) V1() coreinformers.Interface { return ownVersion{g.Interface.V1(), g.label} }

type ownVersion struct {
	coreinformers.Interface
	label string
}

// Nodes implements corev1.Interface.
func (v ownVersion) Nodes() coreinformers.TypedNodeInformer {
	return ownNodes{v.Interface.Nodes(), v.label}
}

type ownNodes struct {
	coreinformers.TypedNodeInformer
	label string
}

// Informer implements corev1.NodeInformer.
func (n ownNodes) Informer() cache.SharedIndexInformer {
	return ownInformer{n.TypedNodeInformer.Informer(), n.label}
}

// TypedInformer implements corev1.TypedNodeInformer.
func (n ownNodes) TypedInformer() coreinformers.NodeIndexInformer {
	return cache.NewTypedSharedIndexInformer[*corev1.Node](n.Informer())
}

// Lister implements corev1.NodeInformer.
func (n ownNodes) Lister() corelisters.NodeLister {
	return corelisters.NewNodeLister(n.Informer().GetIndexer())
}

// ownInformer is a view of an informer.
type ownInformer struct {
	cache.SharedIndexInformer
	label string
}

func (i ownInformer) filtered(h cache.ResourceEventHandler) cache.ResourceEventHandler {
	return cache.FilteringResourceEventHandler{FilterFunc: func(obj any) bool { return own(i.label, obj) }, Handler: h}
}

// AddEventHandler implements cache.SharedInformer.
func (i ownInformer) AddEventHandler(
	h cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(i.filtered(h))
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i ownInformer) AddEventHandlerWithResyncPeriod(
	h cache.ResourceEventHandler, period time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(i.filtered(h), period)
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i ownInformer) AddEventHandlerWithOptions(
	h cache.ResourceEventHandler, o cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(i.filtered(h), o)
}

// GetStore implements cache.SharedInformer.
func (i ownInformer) GetStore() cache.Store { return i.GetIndexer() }

// GetIndexer implements cache.SharedIndexInformer.
func (i ownInformer) GetIndexer() cache.Indexer {
	return ownIndexer{i.SharedIndexInformer.GetIndexer(), i.label}
}

// ownIndexer is a view of what an informer keeps. Nodes have no index.
type ownIndexer struct {
	cache.Indexer
	label string
}

// List implements cache.Store.
func (i ownIndexer) List() []any {
	return slices.DeleteFunc(i.Indexer.List(), func(obj any) bool { return !own(i.label, obj) })
}

// ListKeys implements cache.Store.
func (i ownIndexer) ListKeys() []string {
	return slices.DeleteFunc(i.Indexer.ListKeys(), func(key string) bool {
		_, ok, err := i.GetByKey(key)
		return err != nil || !ok
	})
}

// Get implements cache.Store.
func (i ownIndexer) Get(obj any) (any, bool, error) { return i.only(i.Indexer.Get(obj)) }

// GetByKey implements cache.Store.
func (i ownIndexer) GetByKey(key string) (any, bool, error) { return i.only(i.Indexer.GetByKey(key)) }

func (i ownIndexer) only(obj any, ok bool, err error) (any, bool, error) {
	if err != nil || !ok || !own(i.label, obj) {
		return nil, false, err
	}
	return obj, true, nil
}

// lists is how nodes are listed.
type lists struct {
	// label is of nodes that are left out, "" for none.
	label string
	// ranges are what a node can have; without any all is shown.
	ranges []noderanges.Range
	log    *logrus.Entry
}

// listBuilder makes clients that list nodes so.
type listBuilder struct {
	gate.Builder
	lists lists
}

// Client implements gate.Builder.
func (b listBuilder) Client(name string) (kubernetes.Interface, error) {
	c, err := b.Builder.Client(name)
	return listClient{c, b.lists}, err
}

type listClient struct {
	kubernetes.Interface
	lists lists
}

// CoreV1 implements kubernetes.Interface.
func (c listClient) CoreV1() typedcorev1.CoreV1Interface {
	return listCore{c.Interface.CoreV1(), c.lists}
}

type listCore struct {
	typedcorev1.CoreV1Interface
	lists lists
}

// Nodes implements typedcorev1.NodesGetter.
func (c listCore) Nodes() typedcorev1.NodeInterface {
	return listNodes{c.CoreV1Interface.Nodes(), c.lists}
}

type listNodes struct {
	typedcorev1.NodeInterface
	lists lists
}

// List implements typedcorev1.NodeInterface.
func (l listNodes) List(ctx context.Context, o metav1.ListOptions) (*corev1.NodeList, error) {
	if o.LabelSelector == "" && l.lists.label != "" {
		o.LabelSelector = "!" + l.lists.label
	}
	list, err := l.NodeInterface.List(ctx, o)
	if err != nil {
		return nil, err
	}
	all := func(yield func(*corev1.Node) bool) {
		for i := range list.Items {
			if !yield(&list.Items[i]) {
				return
			}
		}
	}
	unfit := noderanges.Unfit(all, l.lists.ranges)
	for i := range list.Items {
		n := &list.Items[i]
		if why := unfit[n.Name]; why != nil {
			l.lists.log.WithError(why).WithField("node", n.Name).Error("This node has a range of pods that it " +
				"cannot have, and nodes beside it may get the same addresses: delete the Node, and start its agent " +
				"again")
			n.Spec.PodCIDR, n.Spec.PodCIDRs = "", nil
		}
	}
	return list, nil
}
