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

// Lingers is for how long the share of a partition stays when it left: nodes learn of it and
// end its pods, which have half a minute by default.
const Lingers = time.Minute

// DepartedOptions configure Departed.
type DepartedOptions struct {
	// Client may change every share of this resource partition.
	Client *allocations.Client
	// Left says that a partition has left the cluster, and since when; Changes is closed
	// when that may have become so.
	Left    func(ctx context.Context, partition string) (since time.Time, left bool, err error)
	Changes func() <-chan struct{}
	Log     *logrus.Entry
}

// Departed takes the shares of tenant partitions that left the cluster off the nodes of a
// resource partition, when their pods have had time to end: nobody else could.
func Departed(o DepartedOptions) component.Component {
	return component.Component{Name: DepartedName, Run: func(ctx context.Context, ready func()) error {
		ready()
		for ctx.Err() == nil {
			changes := o.Changes()
			var again <-chan time.Time
			switch next, err := o.round(ctx); {
			case err != nil:
				o.Log.WithError(err).Info("cannot take off the shares of partitions that left; it is tried again")
				again = time.After(departedRetry)
			case next > 0:
				again = time.After(next)
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

// round looks at all allocations once. It returns when there is to look again, zero for not
// before something changes.
func (o DepartedOptions) round(ctx context.Context) (next time.Duration, err error) {
	list, err := o.Client.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return 0, err
	}
	left := map[string]departure{}
	for i := range list.Items {
		a := &list.Items[i]
		gone, err := o.gone(ctx, a, left)
		if err != nil {
			return 0, err
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
				return 0, err
			}
			if a, err = o.Client.Get(ctx, a.Name, metav1.GetOptions{}); err != nil {
				return 0, err
			}
		}
	}
	for _, d := range left {
		if d.left && d.lingers > 0 && (next == 0 || d.lingers < next) {
			next = d.lingers
		}
	}
	return next, nil
}

// departure is what was found out of a partition.
type departure struct {
	left    bool
	lingers time.Duration // until its shares go
}

// gone are the partitions of an allocation that left long enough ago. What was found out is
// in left.
func (o DepartedOptions) gone(
	ctx context.Context, a *allocations.NodeAllocation, left map[string]departure,
) (gone []string, err error) {
	named := append([]string(nil), a.Awaited...)
	for _, s := range a.Shares {
		named = append(named, s.Partition)
	}
	for _, partition := range named {
		d, asked := left[partition]
		if !asked {
			since, is, err := o.Left(ctx, partition)
			if err != nil {
				return nil, err
			}
			d = departure{left: is, lingers: time.Until(since.Add(Lingers))}
			left[partition] = d
		}
		if d.left && d.lingers <= 0 {
			gone = append(gone, partition)
		}
	}
	return gone, nil
}
