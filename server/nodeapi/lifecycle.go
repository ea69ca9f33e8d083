package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	// sweepEvery is how often credentials without a Node are looked for.
	sweepEvery = 10 * time.Minute
	// staleAfter is how old such a credential must be: a node joins before
	// its kubelet registers the Node.
	staleAfter = time.Hour
)

// NodeCredentials ties the password of a node to its Node object, so that
// deleting the Node is what frees the name for another machine.
type NodeCredentials struct {
	client  kubernetes.Interface
	secrets Secrets
	log     *logrus.Entry
	now     func() time.Time
	// lives are the records of nodes, and expired is how long certificates live at most.
	lives   sweeper
	expired time.Duration
}

// sweeper forgets lives of nodes that ended.
type sweeper interface {
	Sweep(ctx context.Context, expired time.Duration) error
}

// Lives has the ends of lives forgotten when all certificates of them have expired.
func (c *NodeCredentials) Lives(lives sweeper, expired time.Duration) {
	c.lives, c.expired = lives, expired+24*time.Hour
}

// NewNodeCredentials returns the controller. It needs to list and watch nodes
// and to list and delete Secrets in kube-system.
func NewNodeCredentials(client kubernetes.Interface, log *logrus.Entry) *NodeCredentials {
	return &NodeCredentials{client: client, secrets: NewSecrets(client.CoreV1()), log: log, now: time.Now}
}

// Run works until ctx ends; then it returns nil.
func (c *NodeCredentials) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(nameOnly))
	defer factory.Shutdown()
	nodes := factory.Core().V1().Nodes()
	// A full queue loses nothing but time: the sweep finds it as well.
	deleted := make(chan string, 256)
	_, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			return
		}
		select {
		case deleted <- name:
		default:
		}
	}})
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before Shutdown, which waits for the informers
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), nodes.Informer().HasSynced) {
		return nil
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	c.report(c.sweep(ctx, nodes.Lister()))
	for {
		select {
		case <-ctx.Done():
			return nil
		case name := <-deleted:
			c.report(c.release(ctx, nodes.Lister(), name))
		case <-ticker.C:
			c.report(c.sweep(ctx, nodes.Lister()))
		}
	}
}

// nameOnly keeps of a Node what this controller looks at.
func nameOnly(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil // a tombstone, or already reduced
	}
	return &corev1.Node{TypeMeta: node.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion,
	}}, nil
}

// report logs a failure; the next sweep tries again.
func (c *NodeCredentials) report(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		c.log.WithError(err).Warn("could not remove the credentials of deleted nodes; trying again later")
	}
}

// release removes the credential of a node that was deleted.
func (c *NodeCredentials) release(ctx context.Context, nodes corev1listers.NodeLister, node string) error {
	if _, err := nodes.Get(node); err == nil {
		return nil // it came back meanwhile
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	obj, err := c.secrets.Get(ctx, node+secretSuffix)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.remove(ctx, obj, node)
}

// sweep removes the credentials of nodes that were deleted while nobody
// watched, and of machines that joined but never registered.
func (c *NodeCredentials) sweep(ctx context.Context, nodes corev1listers.NodeLister) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	all, err := c.secrets.ListType(ctx, SecretTypeNodePassword)
	if err != nil {
		return err
	}
	var errs []error
	for i := range all {
		node, ok := nodeOf(&all[i])
		if !ok || c.now().Sub(all[i].CreationTimestamp.Time) < staleAfter {
			continue
		}
		if _, err := nodes.Get(node); apierrors.IsNotFound(err) {
			errs = append(errs, c.remove(ctx, &all[i], node))
		}
	}
	if c.lives != nil {
		errs = append(errs, c.lives.Sweep(ctx, c.expired))
	}
	return errors.Join(errs...)
}

func (c *NodeCredentials) remove(ctx context.Context, obj *corev1.Secret, node string) error {
	if _, ok := nodeOf(obj); !ok {
		return nil
	}
	err := c.secrets.Delete(ctx, obj)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err == nil {
		c.log.WithField("node", node).Info("the node is gone; its name is free for another machine")
	}
	return err
}
