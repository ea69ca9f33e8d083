package placement

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
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
	// adoption is how often tenants of the home partition without a placement are looked
	// for, in pages of pageSize.
	adoption, pageSize = time.Minute, 500
)

// Controller resumes in the home partition what was interrupted. One server runs it.
func (p *Placer) Controller() component.Component {
	return component.Component{Name: "tenant-placement", Run: func(ctx context.Context, ready func()) error {
		ready()
		var adopted time.Time
		for component.Sleep(ctx, period) == nil {
			if !p.dir.Synced() || !p.dir.Several() {
				continue
			}
			if time.Since(adopted) > adoption {
				if err := p.adopt(ctx); err != nil {
					p.log.WithError(err).Warn("tenants of the home partition could not be given their placements")
				} else {
					adopted = time.Now()
				}
			}
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

// adopt gives placements to the tenants that the home partition had before there were
// others.
func (p *Placer) adopt(ctx context.Context) error {
	home, err := p.peers.Tenants(partitionapi.Home)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, placed := range p.dir.Placements() {
		have[placed.Name] = true
	}
	o := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := home.List(ctx, o)
		if err != nil {
			return fmt.Errorf("reading the tenants of the home partition: %w", err)
		}
		for i := range list.Items {
			t := &list.Items[i]
			if t.Name == space.System || have[t.Name] || !t.DeletionTimestamp.IsZero() {
				continue
			}
			if err := p.adoptOne(ctx, t); err != nil {
				return err
			}
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return nil
		}
	}
}

func (p *Placer) adoptOne(ctx context.Context, t *tenantapi.Tenant) error {
	_, err := p.placements.Create(ctx, &partitionapi.TenantPlacement{
		ObjectMeta: metav1.ObjectMeta{Name: t.Name},
		Spec:       partitionapi.TenantPlacementSpec{Partition: partitionapi.Home},
		Status: partitionapi.TenantPlacementStatus{Phase: partitionapi.PlacementActive, TenantUID: t.UID,
			TenantCreated: &t.CreationTimestamp},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
