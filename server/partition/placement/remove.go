package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// Fewest are the tenant partitions, that with the fewest tenants first.
func Fewest(partitions []*partitionapi.Partition, placements []*partitionapi.TenantPlacement) []string {
	tenants := map[string]int{}
	for _, o := range partitions {
		if o.Has(partitionapi.RoleTenant) {
			tenants[o.Name] = 0
		}
	}
	for _, o := range placements {
		if _, ok := tenants[o.Spec.Partition]; ok {
			tenants[o.Spec.Partition]++
		}
	}
	return slices.SortedFunc(maps.Keys(tenants), func(a, b string) int {
		return cmp.Or(cmp.Compare(tenants[a], tenants[b]), cmp.Compare(a, b))
	})
}

// Delete deletes a tenant in the partition that has it, and says whether it is gone already.
// here deletes it in this one.
func (p *Placer) Delete(
	ctx context.Context, name string, o *metav1.DeleteOptions,
	here func(context.Context, *metav1.DeleteOptions) (t *tenantapi.Tenant, gone bool, err error),
) (t *tenantapi.Tenant, gone bool, err error) {
	d, err := p.remove(ctx, name, o, func(ctx context.Context, o *metav1.DeleteOptions) (deletion, error) {
		t, gone, err := here(ctx, o)
		return deletion{Tenant: t, Gone: gone}, err
	})
	return d.Tenant, d.Gone, err
}

// deletion is what the deletion of a Tenant answers.
type deletion struct {
	Tenant *tenantapi.Tenant
	// Gone says that it is gone already.
	Gone bool
}

// remove does what Delete does. The placement says first that the tenant goes, and goes last:
// the controller of home finishes the rest (finish), whoever ended between two of these writes.
func (p *Placer) remove(
	ctx context.Context, name string, o *metav1.DeleteOptions,
	here func(context.Context, *metav1.DeleteOptions) (deletion, error),
) (deletion, error) {
	switch {
	case byHome(ctx):
		return here(ctx, o)
	case p.placements == nil:
		return p.deleteViaHome(ctx, name, o)
	}
	if err := p.know(ctx); err != nil {
		return deletion{}, err
	}
	if !p.dir.Several() {
		return here(ctx, o)
	}
	placed, err := p.placements.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return here(ctx, o) // of the time before there were others, or of none
	case err != nil:
		return deletion{}, err
	}
	to := placed.Spec.Partition
	there, err := p.reach(ctx, to)
	if err != nil {
		return deletion{}, err
	}
	deleteIt := func(ctx context.Context, o *metav1.DeleteOptions) (deletion, error) {
		if to == p.dir.Self() {
			return here(ctx, o)
		}
		return p.deleteAt(ctx, there, there, to, name, o)
	}
	if o != nil && len(o.DryRun) > 0 {
		return deleteIt(ctx, o)
	}
	if uid := placed.Status.TenantUID; uid != "" && o != nil && o.Preconditions != nil &&
		o.Preconditions.UID != nil && *o.Preconditions.UID != uid {
		return deletion{}, apierrors.NewConflict(tenantapi.GroupResource(), name,
			fmt.Errorf("the tenant has the UID %s, and the one to be deleted %s", uid, *o.Preconditions.UID))
	}
	before := placed.Status.Phase
	if before == partitionapi.PlacementCreating && time.Since(placed.CreationTimestamp.Time) < patience {
		// It may be made at this moment, and would be there without its placement.
		return deletion{}, apierrors.NewConflict(tenantapi.GroupResource(), name,
			fmt.Errorf("it is being made: try again in %d seconds at the latest", patience/time.Second))
	}
	if before != partitionapi.PlacementDeleting {
		// Preconditions and admission speak first: what the placement says counts whoever was
		// refused, if this server ends.
		if _, err := deleteIt(ctx, dryRun(o)); err != nil && !apierrors.IsNotFound(err) {
			if refused(err) {
				err = notYet(ctx, there, placed, err)
			}
			return deletion{}, err
		}
	}
	// It is deleted from here on, whatever happens to this server.
	if placed, err = p.setPhase(ctx, placed, partitionapi.PlacementDeleting); err != nil {
		return deletion{}, err
	}
	ctx = context.WithoutCancel(ctx)
	deleted, err := deleteIt(ctx, o)
	if apierrors.IsNotFound(err) && before == partitionapi.PlacementActive {
		// Its partition has lost it, by a restore: its name is what is deleted.
		return lost(name, placed.Status.TenantUID), p.drop(ctx, placed)
	}
	if refused(err) || apierrors.IsConflict(err) {
		// The controller may have been faster, which is a conflict, too.
		switch t, getErr := there.Get(ctx, name, metav1.GetOptions{}); {
		case apierrors.IsNotFound(getErr):
			deleted, err = deletion{}, getErr
		case getErr == nil && !t.DeletionTimestamp.IsZero():
			return deletion{Tenant: t}, nil
		}
	}
	answered := err
	if refused(err) {
		answered = notYet(ctx, there, placed, err)
	}
	switch {
	case apierrors.IsNotFound(err):
		return deleted, cmp.Or(p.drop(ctx, placed), err)
	case refused(err) || apierrors.IsConflict(err):
		if _, phaseErr := p.setPhase(ctx, placed, before); phaseErr != nil {
			p.log.WithError(phaseErr).WithField("tenant", name).Warn("a tenant that was not to be deleted is deleted")
		}
	case err == nil && deleted.Gone:
		if err := p.drop(ctx, placed); err != nil {
			p.log.WithError(err).WithField("tenant", name).Warn("the name of a deleted tenant is freed later")
		}
	}
	return deleted, answered
}

// dryRun is the same deletion, which changes nothing.
func dryRun(o *metav1.DeleteOptions) *metav1.DeleteOptions {
	out := &metav1.DeleteOptions{}
	if o != nil {
		out = o.DeepCopy()
	}
	out.DryRun = []string{metav1.DryRunAll}
	return out
}

// lost is the end of a tenant that its partition does not have.
func lost(name string, uid types.UID) deletion {
	return deletion{Tenant: &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}, Gone: true}
}

// deleteViaHome has home delete a tenant, which is read where it is: home knows, asked by a
// partition, its own tenants only.
func (p *Placer) deleteViaHome(ctx context.Context, name string, o *metav1.DeleteOptions) (deletion, error) {
	home, err := p.reach(ctx, partitionapi.Home)
	if err != nil {
		return deletion{}, err
	}
	placed, err := p.dir.Find(ctx, name)
	if err != nil {
		return deletion{}, answer(partitionapi.Home, err)
	}
	partition := partitionapi.Home // also of one from the time before there were others
	if placed != nil {
		partition = placed.Spec.Partition
	}
	there, err := p.reach(ctx, partition)
	if err != nil {
		return deletion{}, err
	}
	return p.deleteAt(ctx, home, there, partition, name, o)
}

// deleteAt has a tenant deleted at a partition, and reads in another one what became of it.
func (p *Placer) deleteAt(
	ctx context.Context, at, there *tenantapi.Client, partition, name string, o *metav1.DeleteOptions,
) (deletion, error) {
	var asked metav1.DeleteOptions
	t, err := there.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && at != there {
		// There may be a placement without it.
		if o != nil {
			asked.DryRun, asked.Preconditions = o.DryRun, o.Preconditions
		}
		if err := at.Delete(ctx, name, asked); err != nil {
			return deletion{}, answer(partitionapi.Home, err)
		}
		return lost(name, ""), nil
	}
	if err != nil {
		return deletion{}, answer(partition, err)
	}
	asked.Preconditions = &metav1.Preconditions{UID: &t.UID}
	if o != nil {
		asked.DryRun, asked.PropagationPolicy, asked.GracePeriodSeconds = o.DryRun, o.PropagationPolicy,
			o.GracePeriodSeconds
		if o.Preconditions != nil {
			asked.Preconditions = o.Preconditions
		}
	}
	if err := at.Delete(ctx, name, asked); err != nil {
		return deletion{}, answer(partition, err)
	}
	if len(asked.DryRun) > 0 {
		return deletion{Tenant: t}, nil
	}
	after, err := there.Get(ctx, name, metav1.GetOptions{})
	if err != nil || after.UID != t.UID {
		return deletion{Tenant: t, Gone: apierrors.IsNotFound(err) || err == nil}, nil
	}
	return deletion{Tenant: after}, nil
}

func (p *Placer) setPhase(
	ctx context.Context, placed *partitionapi.TenantPlacement, phase partitionapi.PlacementPhase,
) (*partitionapi.TenantPlacement, error) {
	if placed.Status.Phase == phase {
		return placed, nil
	}
	out := placed.DeepCopy()
	out.Status.Phase = phase
	return p.placements.Update(ctx, out, metav1.UpdateOptions{})
}

// finish goes on with the end of a tenant and reports whether its name is free.
func (p *Placer) finish(ctx context.Context, placed *partitionapi.TenantPlacement) (bool, error) {
	there, err := p.reach(ctx, placed.Spec.Partition)
	if err != nil {
		return false, err
	}
	t, err := there.Get(ctx, placed.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, p.drop(ctx, placed)
	case err != nil:
		return false, err
	case !t.DeletionTimestamp.IsZero():
		return false, nil
	}
	err = there.Delete(ctx, t.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &t.UID}})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		err = nil
	case apierrors.HasStatusCause(err, tenantapi.CauseDeletionProtected):
		// It was protected after it was asked for: it stays, also when the protection goes.
		_, err = p.setPhase(ctx, placed, partitionapi.PlacementActive)
	}
	return false, err
}
