package placement

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

const (
	// adoption is how often tenants without a placement are looked for in the home partition,
	// and in one whose tenants have names that others have; in pages of pageSize.
	adoption, pageSize = time.Minute, 500
	// adoptAgain is how soon it is tried again what failed.
	adoptAgain = 5 * time.Second
)

// adopter gives placements to tenants that have none.
type adopter struct {
	*Placer
	// partitions are what is known of the tenants of each partition.
	partitions map[string]*adopted
}

type adopted struct {
	// of is what the partition was registered as.
	of   string
	next time.Time // zero for never
	// taken are its tenants whose names another partition has.
	taken map[string]bool
}

// all gives placements to tenants that have none. The home partition has those of the
// time before there were others. Other partitions have some if home was restored from a
// snapshot, which begins this process anew or registers them anew, or if they were.
func (p *adopter) all(ctx context.Context) {
	for _, one := range p.dir.Partitions() {
		registered := p.dir.Registered(one.Name)
		if registered == nil || !one.Has(partitionapi.RoleTenant) {
			continue
		}
		of := string(registered.UID) + registered.Spec.Restored
		a := p.partitions[one.Name]
		if a == nil || a.of != of {
			if a == nil {
				a = &adopted{}
				p.partitions[one.Name] = a
			}
			a.of, a.next = of, time.Now()
		}
		if a.next.IsZero() || time.Now().Before(a.next) {
			continue
		}
		taken, err := p.adopt(ctx, one.Name)
		if err != nil {
			p.log.WithError(err).WithField("of", one.Name).Warn("tenants of a partition have no placements; " +
				"it is tried again")
			a.next = time.Now().Add(adoptAgain)
			continue
		}
		p.report(a, taken)
		if a.next = (time.Time{}); one.Name == partitionapi.Home || len(taken) > 0 {
			a.next = time.Now().Add(adoption)
		}
	}
	for name, a := range p.partitions {
		if p.dir.Partition(name) == nil {
			p.report(a, nil)
			delete(p.partitions, name)
		}
	}
}

// report reports the tenants whose names another partition has. Nothing happens to them.
func (p *adopter) report(a *adopted, taken map[string]string) {
	now := map[string]bool{}
	for name, detail := range taken {
		now[name] = true
		if p.health != nil {
			p.health.Set(health.TenantNameTaken, name, detail)
		}
		if !a.taken[name] {
			p.log.WithField("tenant", name).Error("two partitions have a tenant of this name: " + detail)
		}
	}
	for name := range a.taken {
		if !now[name] && p.health != nil {
			p.health.Clear(health.TenantNameTaken, name)
		}
	}
	a.taken = now
}

// adopt looks at the tenants of a partition. It returns those whose names belong to another.
func (p *adopter) adopt(ctx context.Context, partition string) (taken map[string]string, err error) {
	if partition != p.dir.Self() {
		if err := p.peers.Ready(ctx, partition); err != nil {
			return nil, err
		}
	}
	there, err := p.peers.Tenants(partition)
	if err != nil {
		return nil, err
	}
	have := map[string]*partitionapi.TenantPlacement{}
	for _, placed := range p.dir.Placements() {
		have[placed.Name] = placed
	}
	taken = map[string]string{}
	for o := (metav1.ListOptions{Limit: pageSize}); ; {
		list, err := p.page(ctx, there, o)
		if err != nil {
			return nil, fmt.Errorf("reading the tenants of partition %s: %w", partition, err)
		}
		for i := range list.Items {
			t := &list.Items[i]
			if t.Name == space.System || !t.DeletionTimestamp.IsZero() {
				continue
			}
			detail, err := p.adoptOne(ctx, there, partition, t, have[t.Name])
			if err != nil {
				return nil, fmt.Errorf("tenant %s: %w", t.Name, err)
			}
			if detail != "" {
				taken[t.Name] = detail
			}
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return taken, nil
		}
	}
}

func (p *adopter) page(
	ctx context.Context, there *tenantapi.Client, o metav1.ListOptions,
) (*tenantapi.TenantList, error) {
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	return there.List(ctx, o)
}

// errTaken is a name that somebody took at this moment.
var errTaken = errors.New("its name was taken at this moment")

// adoptOne gives a tenant its placement. The first that has one keeps the name: what it
// returns says who that is, if it is another partition.
func (p *adopter) adoptOne(
	ctx context.Context, there *tenantapi.Client, partition string, t *tenantapi.Tenant,
	placed *partitionapi.TenantPlacement,
) (taken string, err error) {
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	switch {
	case placed == nil:
		placed, err = p.placements.Create(ctx, &partitionapi.TenantPlacement{
			ObjectMeta: metav1.ObjectMeta{Name: t.Name},
			Spec:       partitionapi.TenantPlacementSpec{Partition: partition},
			Status: partitionapi.TenantPlacementStatus{Phase: partitionapi.PlacementActive, TenantUID: t.UID,
				TenantCreated: &t.CreationTimestamp},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return "", errTaken
		}
		if err != nil {
			return "", err
		}
		p.dir.Note(placed)
		// It may have been deleted, with the placement that it had, since it was listed.
		if now, err := there.Get(ctx, t.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) ||
			err == nil && now.UID != t.UID {
			return "", p.drop(ctx, placed)
		}
		return "", nil
	case placed.Spec.Partition == partition:
		if placed.Status.Phase == partitionapi.PlacementActive && placed.Status.TenantUID != t.UID {
			// The partition was restored from a snapshot. Credentials go by the UID.
			return "", p.record(ctx, placed, t)
		}
		return "", nil
	}
	// What is known of placements may be older than the list of tenants.
	now, err := p.placements.Get(ctx, t.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", errTaken // and free again
	case err != nil:
		return "", err
	case now.Spec.Partition == partition:
		return "", nil
	}
	switch is, err := there.Get(ctx, t.Name, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", err
	default:
		return fmt.Sprintf("it is that of partition %s; ignored: that of %s, with the UID %s", now.Spec.Partition,
			partition, is.UID), nil
	}
}
