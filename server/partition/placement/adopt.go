package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	// and in one that does not agree with the placements; in pages of pageSize.
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
	// reported are the tenants about which it does not agree with the placements.
	reported found
}

// found are tenants by what is wrong with them, and what there is to say of each.
type found map[health.Code]map[string]string

func (f found) add(code health.Code, tenant, detail string) {
	if f[code] == nil {
		f[code] = map[string]string{}
	}
	f[code][tenant] = detail
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
		if a.next.IsZero() || time.Now().Before(a.next) && !p.freed(a) {
			continue
		}
		p.pass(ctx, one.Name, a)
	}
	for name, a := range p.partitions {
		if p.dir.Partition(name) == nil {
			p.report(a, nil)
			delete(p.partitions, name)
		}
	}
}

// pass looks once at the tenants of a partition. What fails for one of them is tried again soon,
// and keeps no other from its placement.
func (p *adopter) pass(ctx context.Context, partition string, a *adopted) {
	wrong, failed, err := p.adopt(ctx, partition)
	if err != nil || len(failed) > 0 {
		p.log.WithError(errors.Join(append(failed.errors(), err)...)).WithField("of", partition).
			Warn("tenants of a partition have no placements; it is tried again")
		a.next = time.Now().Add(adoptAgain)
	}
	if err != nil {
		return
	}
	for code, names := range a.reported {
		for name, detail := range names {
			if failed[name] != nil {
				wrong.add(code, name, detail) // nothing else is known of it
			}
		}
	}
	p.report(a, wrong)
	if len(failed) > 0 {
		return
	}
	if a.next = (time.Time{}); partition == partitionapi.Home || len(wrong) > 0 {
		a.next = time.Now().Add(adoption)
	}
}

// failures are tenants whose turn did not go well.
type failures map[string]error

// errors are a few of them.
func (f failures) errors() (few []error) {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if len(few) == 3 {
			break
		}
		few = append(few, fmt.Errorf("tenant %s: %w", name, f[name]))
	}
	return few
}

// note takes an error about one tenant. It is false if a server did not answer, so that the
// next one would fare no better.
func (f failures) note(name string, err error) bool {
	var status apierrors.APIStatus
	f[name] = err
	return errors.Is(err, errTaken) || errors.As(err, &status)
}

// freed reports whether somebody gave up a tenant that was reported as missing.
func (p *adopter) freed(a *adopted) bool {
	missing := len(a.reported[health.TenantMissing])
	if missing == 0 {
		return false
	}
	for _, placed := range p.dir.Placements() {
		if _, is := a.reported[health.TenantMissing][placed.Name]; is {
			missing--
		}
	}
	return missing > 0
}

// report reports tenants about which a partition and the placements do not agree. Nothing
// happens to them.
func (p *adopter) report(a *adopted, wrong found) {
	for code, text := range map[health.Code]string{
		health.TenantNameTaken: "two partitions have a tenant of this name: ",
		health.TenantMissing:   "a tenant is not in its partition: ",
	} {
		for name, detail := range wrong[code] {
			if p.health != nil {
				p.health.Set(code, name, detail)
			}
			if _, told := a.reported[code][name]; !told {
				p.log.WithField("tenant", name).Error(text + detail)
			}
		}
		for name := range a.reported[code] {
			if _, is := wrong[code][name]; !is && p.health != nil {
				p.health.Clear(code, name)
			}
		}
	}
	a.reported = wrong
}

// adopt looks at the tenants of a partition. It returns those whose names belong to another, and
// those that it should have, and those of which that cannot be said.
func (p *adopter) adopt(ctx context.Context, partition string) (found, failures, error) {
	if partition != p.dir.Self() {
		if err := p.peers.Ready(ctx, partition); err != nil {
			return nil, nil, err
		}
	}
	there, err := p.peers.Tenants(partition)
	if err != nil {
		return nil, nil, err
	}
	have := map[string]*partitionapi.TenantPlacement{}
	for _, placed := range p.dir.Placements() {
		have[placed.Name] = placed
	}
	wrong, failed := found{}, failures{}
	for o := (metav1.ListOptions{Limit: pageSize}); ; {
		list, err := p.page(ctx, there, o)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the tenants of partition %s: %w", partition, err)
		}
		for i := range list.Items {
			t := &list.Items[i]
			if t.Name == space.System || !t.DeletionTimestamp.IsZero() {
				continue
			}
			detail, err := p.adoptOne(ctx, there, partition, t, have[t.Name])
			if err != nil && !failed.note(t.Name, err) {
				return nil, nil, fmt.Errorf("tenant %s: %w", t.Name, err)
			}
			if detail != "" {
				wrong.add(health.TenantNameTaken, t.Name, detail)
			}
			delete(have, t.Name)
		}
		if o.Continue = list.Continue; o.Continue == "" {
			break
		}
	}
	for _, placed := range have {
		if placed.Spec.Partition != partition || placed.Status.Phase != partitionapi.PlacementActive {
			continue
		}
		if lost, err := p.lost(ctx, there, placed); err != nil && !failed.note(placed.Name, err) {
			return nil, nil, fmt.Errorf("tenant %s: %w", placed.Name, err)
		} else if lost && err == nil {
			wrong.add(health.TenantMissing, placed.Name, "partition "+partition+" does not have it")
		}
	}
	return wrong, failed, nil
}

// lost reports whether a partition does not have a tenant that it should have: it was restored
// from a snapshot from before the tenant.
func (p *adopter) lost(
	ctx context.Context, there *tenantapi.Client, placed *partitionapi.TenantPlacement,
) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	_, err := there.Get(ctx, placed.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	// It may be deleted at this moment, or made.
	now, err := p.placements.Get(ctx, placed.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && now.ResourceVersion == placed.ResourceVersion, err
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
// returns says who that is, if it is another partition. It writes once, and the second time, to
// take the placement back, only if the tenant went meanwhile: where this process ends in
// between, the next pass reports tenant-missing, and a deletion of the tenant frees the name.
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
