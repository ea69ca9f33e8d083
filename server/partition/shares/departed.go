package shares

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/server/partition/allocations"
)

// DepartedName is the name of the component.
const DepartedName = "departed-shares"

// departedRetry is how soon it is tried again what could not be done.
const departedRetry = 30 * time.Second

// DepartedOptions configure Departed.
type DepartedOptions struct {
	// Client may change every share of this resource partition.
	Client *allocations.Client
	// Left says that a partition has left the cluster, and Changes is closed when that
	// may have become so.
	Left    func(ctx context.Context, partition string) (bool, error)
	Changes func() <-chan struct{}
	Log     *logrus.Entry
}

// Departed takes the shares of tenant partitions that left the cluster off the nodes of a
// resource partition: nobody else could.
func Departed(o DepartedOptions) component.Component {
	return component.Component{Name: DepartedName, Run: func(ctx context.Context, ready func()) error {
		ready()
		for ctx.Err() == nil {
			changes := o.Changes()
			var again <-chan time.Time
			if err := o.round(ctx); err != nil {
				o.Log.WithError(err).Info("cannot take off the shares of partitions that left; it is tried again")
				again = time.After(departedRetry)
			}
			select {
			case <-changes:
			case <-again:
			case <-ctx.Done():
			}
		}
		return nil
	}}
}

func (o DepartedOptions) round(ctx context.Context) error {
	list, err := o.Client.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	left := map[string]bool{}
	for i := range list.Items {
		a := &list.Items[i]
		gone, err := o.gone(ctx, a, left)
		if err != nil {
			return err
		}
		for tries := 0; len(gone) > 0; tries++ {
			for _, partition := range gone {
				a.Set(allocations.Share{Partition: partition})
			}
			_, err := o.Client.Update(ctx, a, metav1.UpdateOptions{})
			if err == nil || apierrors.IsNotFound(err) {
				break
			}
			if !apierrors.IsConflict(err) || tries > 5 {
				return err
			}
			if a, err = o.Client.Get(ctx, a.Name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// gone are the partitions of an allocation that left. What was found out is in left.
func (o DepartedOptions) gone(
	ctx context.Context, a *allocations.NodeAllocation, left map[string]bool,
) (gone []string, err error) {
	named := append([]string(nil), a.Awaited...)
	for _, s := range a.Shares {
		named = append(named, s.Partition)
	}
	for _, partition := range named {
		is, asked := left[partition]
		if !asked {
			if is, err = o.Left(ctx, partition); err != nil {
				return nil, err
			}
			left[partition] = is
		}
		if is {
			gone = append(gone, partition)
		}
	}
	return gone, nil
}
