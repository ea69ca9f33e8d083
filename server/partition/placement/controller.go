package placement

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

const (
	// period is how often placements that are not done are looked at.
	period = time.Second
	// patience is how old one is before it counts as left behind: its request may be at
	// work on it.
	patience = 10 * time.Second
	// oneTry bounds the work on one placement.
	oneTry = 10 * time.Second
)

// Controller resumes in the home partition what was interrupted. One server runs it.
func (p *Placer) Controller() component.Component {
	return component.Component{Name: "tenant-placement", Run: func(ctx context.Context, ready func()) error {
		ready()
		adopt := &adopter{Placer: p, partitions: map[string]*adopted{}}
		for component.Sleep(ctx, period) == nil {
			if !p.dir.Synced() || !p.dir.Several() {
				continue
			}
			adopt.all(ctx)
			for _, placed := range p.dir.Placements() {
				if err := p.resume(ctx, placed, time.Now()); err != nil && ctx.Err() == nil {
					p.log.WithError(err).WithField("tenant", placed.Name).Debug("will try again")
				}
			}
		}
		return nil
	}}
}

// resume goes on with one placement.
func (p *Placer) resume(ctx context.Context, placed *partitionapi.TenantPlacement, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	switch placed.Status.Phase {
	case partitionapi.PlacementDeleting:
		_, err := p.finish(ctx, placed)
		return err
	case partitionapi.PlacementCreating:
		if now.Sub(placed.CreationTimestamp.Time) < patience {
			return nil
		}
		return p.complete(ctx, placed)
	}
	return nil
}

// complete makes the Tenant of a placement that was left behind.
func (p *Placer) complete(ctx context.Context, placed *partitionapi.TenantPlacement) error {
	there, err := p.reach(ctx, placed.Spec.Partition)
	if err != nil {
		return err
	}
	t := placed.Spec.Tenant
	if t == nil {
		t = &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: placed.Name}}
	}
	made, err := there.Create(ctx, asked(t, placed.Spec.Partition), metav1.CreateOptions{FieldManager: "a4s"})
	switch {
	case apierrors.IsAlreadyExists(err):
		if made, err = there.Get(ctx, placed.Name, metav1.GetOptions{}); err != nil {
			return err
		}
	case refused(err):
		// An earlier try may have made it, and a partition that has just started refuses this
		// one everything.
		found, getErr := there.Get(ctx, placed.Name, metav1.GetOptions{})
		if getErr == nil {
			return p.active(ctx, there, placed, found)
		} else if !apierrors.IsNotFound(getErr) {
			return getErr
		}
		p.log.WithError(err).WithField("tenant", placed.Name).Warn("a tenant whose making was interrupted is refused")
		return p.drop(ctx, placed)
	case err != nil:
		return err
	}
	p.log.WithField("tenant", placed.Name).Info("the making of a tenant was interrupted, and is complete now")
	return p.active(ctx, there, placed, made)
}
