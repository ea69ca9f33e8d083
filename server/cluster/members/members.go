package members

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/component"
)

// Finalizer is on the Nodes of servers with a member of the datastore.
const Finalizer = "a4s.io/datastore-member"

// retryEvery is how often a removal is tried that did not succeed.
const retryEvery = 5 * time.Second

// Datastore is what changes the members.
type Datastore interface {
	Members() []etcd.Member
	RemoveMember(ctx context.Context, id uint64) error
}

// New returns the controller. It runs on one server only.
func New(client kubernetes.Interface, store Datastore, log *logrus.Entry) component.Component {
	c := &controller{client: client, store: store, log: log}
	return component.Component{Name: "datastore-members", Run: c.run}
}

type controller struct {
	client kubernetes.Interface
	store  Datastore
	log    *logrus.Entry
}

func (c *controller) run(ctx context.Context, ready func()) error {
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(strip))
	defer factory.Shutdown()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before Shutdown, which waits for the informers
	nodes := factory.Core().V1().Nodes()
	changed := make(chan struct{}, 1)
	tell := func(obj any) {
		if node, ok := obj.(*corev1.Node); ok && leaving(node) {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}
	if _, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell,
		UpdateFunc: func(_, obj any) { tell(obj) }}); err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), nodes.Informer().HasSynced) {
		return nil
	}
	ready()
	for {
		var again <-chan time.Time
		if !c.sweep(ctx, nodes.Lister()) {
			again = time.After(retryEvery)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-again:
		}
	}
}

// strip keeps of a Node what this controller looks at.
func strip(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	return &corev1.Node{TypeMeta: node.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion,
		DeletionTimestamp: node.DeletionTimestamp, Finalizers: node.Finalizers,
	}}, nil
}

func leaving(node *corev1.Node) bool {
	return node.DeletionTimestamp != nil && slices.Contains(node.Finalizers, Finalizer)
}

// sweep removes the members of all nodes that are being deleted, and says
// whether nothing is left to do.
func (c *controller) sweep(ctx context.Context, lister corev1listers.NodeLister) bool {
	nodes, err := lister.List(labels.Everything())
	if err != nil {
		return false
	}
	done := true
	for _, node := range nodes {
		if !leaving(node) {
			continue
		}
		if err := c.remove(ctx, node); err != nil {
			done = false
			if ctx.Err() == nil {
				c.log.WithError(err).
					Warnf("The server %s is not removed from the datastore yet; its Node stays until it is", node.Name)
			}
		}
	}
	return done
}

// remove removes the member first: the Node stays until it is gone.
func (c *controller) remove(ctx context.Context, node *corev1.Node) error {
	switch what, m := etcd.PlanRemoval(c.store.Members(), node.Name); what {
	case etcd.RemoveMember:
		if err := c.store.RemoveMember(ctx, m.ID); err != nil {
			return err
		}
		c.log.Infof("Removed %s from the datastore, because its Node was deleted", m)
	case etcd.RemoveRefused:
		c.log.Warnf("The Node of %s was deleted, but its datastore is the only one: it stays", m)
	}
	return Release(ctx, c.client, node)
}

// Hold puts the finalizer on a node, which its kubelet and controllers write to
// at the same time.
func Hold(ctx context.Context, client kubernetes.Interface, name string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil || slices.Contains(node.Finalizers, Finalizer) || node.DeletionTimestamp != nil {
			return err
		}
		return patch(ctx, client, node, append(slices.Clone(node.Finalizers), Finalizer))
	})
}

// Release takes the finalizer off.
func Release(ctx context.Context, client kubernetes.Interface, node *corev1.Node) error {
	err := patch(ctx, client, node, slices.DeleteFunc(slices.Clone(node.Finalizers), func(f string) bool {
		return f == Finalizer
	}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func patch(ctx context.Context, client kubernetes.Interface, node *corev1.Node, finalizers []string) error {
	// The list is replaced as a whole: the version makes sure that it is the
	// one that was looked at.
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID,
		"resourceVersion": node.ResourceVersion, "finalizers": finalizers}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, body,
		metav1.PatchOptions{FieldManager: "a4s"})
	return err
}
