package shares

import (
	"context"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/server/partition/allocations"
	"github.com/a4s-io/a4s/server/partition/nodecopies"
)

const (
	// RestoredName is the name of the component.
	RestoredName = "restored-shares"
	// restoredRetry is how soon it is tried again what could not be done.
	restoredRetry = time.Second
	// nodePage is how many nodes are read at a time, restoredWriters how many are written.
	nodePage, restoredWriters = 500, 8
)

// RestoredOptions configure Restored.
type RestoredOptions struct {
	// Nodes and Client have all rights at this resource partition.
	Nodes  kubernetes.Interface
	Client *allocations.Client
	// Tenants waits until it is known which tenant partitions there are, and returns them.
	// Without any there is nobody to wait for.
	Tenants func(context.Context) (partitions []string, err error)
	// Done is called when every node waits for them. Until then no partition may write a share.
	Done func() error
	Log  *logrus.Entry
}

// Restored has the shares of all nodes awaited after a resource partition was restored from
// a snapshot: those of then are too low. So are those of one that begins to share its nodes.
func Restored(o RestoredOptions) component.Component {
	return component.Component{Name: RestoredName, Run: func(ctx context.Context, ready func()) error {
		ready()
		told := ""
		for ctx.Err() == nil {
			err := o.await(ctx)
			if err == nil {
				<-ctx.Done()
				return nil
			}
			if ctx.Err() == nil && err.Error() != told {
				told = err.Error()
				o.Log.WithError(err).Warn("nothing is placed on the nodes of this partition until it is known which " +
					"partitions have pods there; it is tried again")
			}
			if component.Sleep(ctx, restoredRetry) != nil {
				return nil
			}
		}
		return nil
	}}
}

func (o RestoredOptions) await(ctx context.Context) error {
	tenants, err := o.Tenants(ctx)
	if err != nil {
		return err
	}
	nodes := 0
	for page := (metav1.ListOptions{Limit: nodePage, LabelSelector: "!" + nodecopies.Label}); len(tenants) > 0; {
		list, err := o.Nodes.CoreV1().Nodes().List(ctx, page)
		if err != nil {
			return err
		}
		some, limited := errgroup.WithContext(ctx)
		some.SetLimit(restoredWriters)
		for i := range list.Items {
			some.Go(func() error { return o.awaitOn(limited, &list.Items[i], slices.Clone(tenants)) })
		}
		if err := some.Wait(); err != nil {
			return err
		}
		nodes += len(list.Items)
		if page.Continue = list.Continue; page.Continue == "" {
			break
		}
	}
	if err := o.Done(); err != nil {
		return err
	}
	if len(tenants) > 0 {
		o.Log.Infof("Partitions %v have to say what they have on %d nodes before more is placed there", tenants, nodes)
	}
	return nil
}

// awaitOn has all shares of one node awaited.
func (o RestoredOptions) awaitOn(ctx context.Context, node *corev1.Node, tenants []string) error {
	for {
		a, err := o.Client.Get(ctx, node.Name, metav1.GetOptions{})
		there := err == nil
		switch {
		case apierrors.IsNotFound(err):
			a = &allocations.NodeAllocation{ObjectMeta: metav1.ObjectMeta{Name: node.Name,
				OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}}}
		case err != nil:
			return err
		}
		for _, s := range a.Shares {
			tenants = append(tenants, s.Partition)
		}
		tenants = slices.Compact(slices.Sorted(slices.Values(tenants)))
		if slices.Equal(a.Awaited, tenants) {
			return nil
		}
		a.Awaited = tenants
		if there {
			_, err = o.Client.Update(ctx, a, metav1.UpdateOptions{})
		} else {
			_, err = o.Client.Create(ctx, a, metav1.CreateOptions{})
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
}
