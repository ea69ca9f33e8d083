package placement

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// Directory is what is known of the partitions.
type Directory interface {
	Self() string
	Several() bool
	Synced() bool
	Partition(name string) *partitionapi.Partition
	Partitions() []*partitionapi.Partition
	// Registered finds a partition in what home lists.
	Registered(name string) *partitionapi.Partition
	Placements() []*partitionapi.TenantPlacement
	// Find is the placement of a tenant, by the word of home if need be; nil if there is none.
	Find(ctx context.Context, tenant string) (*partitionapi.TenantPlacement, error)
	Note(*partitionapi.TenantPlacement)
}

// Peers are the partitions.
type Peers interface {
	// Ready returns soon whether a server of another partition answers.
	Ready(ctx context.Context, partition string) error
	// Tenants is a client of the tenants of a partition.
	Tenants(partition string) (*tenantapi.Client, error)
}

// Placer makes and removes tenants.
type Placer struct {
	dir   Directory
	peers Peers
	// placements is home's, nil on servers of other partitions.
	placements *partitionapi.PlacementClient
	health     *health.Registry // nil for nobody
	log        *logrus.Entry
}

// New returns the placer of a server; placements is nil outside the home partition.
func New(
	dir Directory, peers Peers, placements *partitionapi.PlacementClient, problems *health.Registry, log *logrus.Entry,
) *Placer {
	return &Placer{dir: dir, peers: peers, placements: placements, health: problems, log: log}
}

const (
	// catchUp is how long a server that has just started may take to know the partitions.
	catchUp, look = 5 * time.Second, 20 * time.Millisecond
	// tries bounds how often a name is found to be free and is taken then.
	tries = 3
	// making bounds how long a partition may take to make a Tenant. It is shorter than the
	// patience of the controller, and that of Delete: then nothing is under way any more.
	making = 8 * time.Second
)

// Create makes a tenant in the partition that it belongs to. here makes it in this one.
func (p *Placer) Create(
	ctx context.Context, t *tenantapi.Tenant, o *metav1.CreateOptions,
	here func(context.Context) (*tenantapi.Tenant, error),
) (*tenantapi.Tenant, error) {
	switch {
	case t.Name == space.System, t.Name == "" && t.GenerateName == "", byHome(ctx):
		return here(ctx)
	case p.placements == nil:
		return p.viaHome(ctx, t, o)
	}
	if err := p.know(ctx); err != nil {
		return nil, err
	}
	if want := t.Spec.Partition; !p.dir.Several() {
		if want != "" && want != partitionapi.Home {
			return nil, noPartition(p.dir, t, want)
		}
		return here(ctx)
	}
	if t.Name == "" {
		return nil, apierrors.NewBadRequest("generateName: a tenant of a cluster of several partitions needs a name")
	}
	to, err := p.choose(ctx, t)
	if err != nil {
		return nil, err
	}
	return p.create(ctx, t, to, o, here)
}

// byHome reports whether the home partition asks, which has placed the tenant.
func byHome(ctx context.Context) bool {
	u, ok := request.UserFrom(ctx)
	return ok && u.GetName() == partitionapi.UserPrefix+partitionapi.Home
}

// viaHome has home make a tenant.
func (p *Placer) viaHome(
	ctx context.Context, t *tenantapi.Tenant, o *metav1.CreateOptions,
) (*tenantapi.Tenant, error) {
	home, err := p.reach(ctx, partitionapi.Home)
	if err != nil {
		return nil, err
	}
	made, err := home.Create(ctx, asked(t, t.Spec.Partition), options(o))
	return made, answer(partitionapi.Home, err)
}

// asked is what a client asks for, in another partition.
func asked(t *tenantapi.Tenant, partition string) *tenantapi.Tenant {
	out := &tenantapi.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: t.Name, GenerateName: t.GenerateName, Labels: t.Labels,
			Annotations: t.Annotations, Finalizers: t.Finalizers},
		Spec: t.Spec,
	}
	out.Spec.Partition = partition
	return out
}

func options(o *metav1.CreateOptions) metav1.CreateOptions {
	if o == nil {
		return metav1.CreateOptions{}
	}
	return metav1.CreateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
}

// know waits until this server knows the partitions, for a moment after its start.
func (p *Placer) know(ctx context.Context) error {
	if p.dir.Synced() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	err := wait.PollUntilContextCancel(limited, look, true, func(context.Context) (bool, error) {
		return p.dir.Synced(), nil
	})
	if err != nil {
		return apierrors.NewServiceUnavailable("this server does not know the partitions of the cluster yet")
	}
	return nil
}

// reach is a client of a partition that answers.
func (p *Placer) reach(ctx context.Context, partition string) (*tenantapi.Client, error) {
	if partition != p.dir.Self() {
		if err := p.peers.Ready(ctx, partition); err != nil {
			p.log.WithError(err).Warn("tenants cannot be made or deleted")
			what := "which decides where tenants are made"
			if partition != partitionapi.Home {
				what = "where the tenant belongs"
			}
			return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("partition %s, %s, cannot be reached now",
				partition, what))
		}
	}
	return p.peers.Tenants(partition)
}

// answer is what a client of this server gets to see of an error of another.
func answer(partition string, err error) error {
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) {
		return err
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("partition %s did not answer: %v", partition, err))
}

func noPartition(dir Directory, t *tenantapi.Tenant, want string) error {
	var have []string
	for _, o := range dir.Partitions() {
		if o.Has(partitionapi.RoleTenant) {
			have = append(have, o.Name)
		}
	}
	if len(have) == 0 {
		have = []string{partitionapi.Home}
	}
	return apierrors.NewBadRequest(fmt.Sprintf("tenant %s: spec.partition: the cluster has no tenant partition %q, "+
		"it has %v", t.Name, want, have))
}

// choose is the partition for a new tenant: the one it wants, or the one with the fewest
// tenants that answers.
func (p *Placer) choose(ctx context.Context, t *tenantapi.Tenant) (string, error) {
	if want := t.Spec.Partition; want != "" {
		if o := p.dir.Partition(want); o == nil || !o.Has(partitionapi.RoleTenant) {
			return "", noPartition(p.dir, t, want)
		}
		return want, nil
	}
	for _, name := range Fewest(p.dir.Partitions(), p.dir.Placements()) {
		if name == p.dir.Self() || p.peers.Ready(ctx, name) == nil {
			return name, nil
		}
	}
	return "", apierrors.NewServiceUnavailable("no tenant partition can be reached now")
}

// take makes the placement of a tenant. A name is free, too, when its last tenant is gone
// and only its placement is not.
func (p *Placer) take(ctx context.Context, t *tenantapi.Tenant, to string) (*partitionapi.TenantPlacement, error) {
	if to != partitionapi.Home {
		if err := p.notHere(ctx, t.Name); err != nil {
			return nil, err
		}
	}
	for range tries {
		placed, err := p.placements.Create(ctx, &partitionapi.TenantPlacement{
			ObjectMeta: metav1.ObjectMeta{Name: t.Name},
			Spec:       partitionapi.TenantPlacementSpec{Partition: to, Tenant: asked(t, to)},
			Status:     partitionapi.TenantPlacementStatus{Phase: partitionapi.PlacementCreating},
		}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return placed, err
		}
		old, err := p.placements.Get(ctx, t.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if old.Status.Phase != partitionapi.PlacementDeleting {
			break
		}
		if gone, err := p.finish(ctx, old); err != nil || !gone {
			break
		}
	}
	return nil, apierrors.NewAlreadyExists(tenantapi.GroupResource(), t.Name)
}

// notHere refuses the name of a tenant of the home partition from the time before there
// were others, until the controller has given it a placement.
func (p *Placer) notHere(ctx context.Context, name string) error {
	home, err := p.peers.Tenants(partitionapi.Home)
	if err != nil {
		return err
	}
	_, err = home.Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return apierrors.NewAlreadyExists(tenantapi.GroupResource(), name)
	case apierrors.IsNotFound(err):
		return nil
	}
	return err
}

// create takes the name, makes the Tenant and says that it is there. The controller of home goes
// on with a placement that was left behind (resume), whoever ended between two of these writes.
func (p *Placer) create(
	ctx context.Context, t *tenantapi.Tenant, to string, o *metav1.CreateOptions,
	here func(context.Context) (*tenantapi.Tenant, error),
) (*tenantapi.Tenant, error) {
	there, err := p.reach(ctx, to)
	if err != nil {
		return nil, err
	}
	t.Spec.Partition = to
	makeIt := func(ctx context.Context) (*tenantapi.Tenant, error) {
		if to == p.dir.Self() {
			return here(ctx)
		}
		made, err := there.Create(ctx, asked(t, to), options(o))
		return made, answer(to, err)
	}
	if o != nil && len(o.DryRun) > 0 {
		if _, err := p.placements.Get(ctx, t.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			if err == nil {
				err = apierrors.NewAlreadyExists(tenantapi.GroupResource(), t.Name)
			}
			return nil, err
		}
		return makeIt(ctx)
	}
	placed, err := p.take(ctx, t, to)
	if err != nil {
		return nil, err
	}
	p.dir.Note(placed)
	// From here on it does not depend on the patience of the client.
	ctx = context.WithoutCancel(ctx)
	limited, cancel := context.WithTimeout(ctx, making)
	defer cancel()
	made, err := makeIt(limited)
	switch {
	case apierrors.IsAlreadyExists(err):
		// It has no right to its name, but it is there, and the name is taken.
		if found, getErr := there.Get(ctx, t.Name, metav1.GetOptions{}); getErr == nil {
			if activeErr := p.active(ctx, there, placed, found); activeErr != nil {
				p.log.WithError(activeErr).WithField("tenant", t.Name).
					Warn("the placement of a tenant is completed later")
			}
		}
		return nil, err
	case refused(err):
		if dropErr := p.drop(ctx, placed); dropErr != nil {
			p.log.WithError(dropErr).WithField("tenant", t.Name).Warn("the name of a refused tenant is freed later")
		}
		return nil, notYet(ctx, there, placed, err)
	case err != nil:
		return nil, err // the controller goes on
	}
	if err := p.active(ctx, there, placed, made); apierrors.IsConflict(err) {
		return nil, err
	} else if err != nil {
		p.log.WithError(err).WithField("tenant", t.Name).Warn("the placement of a tenant is completed later")
	}
	return made, nil
}

// refused reports whether a partition has judged a Tenant and will judge it so again.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

// notYet is what a client gets to see of a refusal: a partition that has just started refuses
// this one everything.
func notYet(
	ctx context.Context, there *tenantapi.Client, placed *partitionapi.TenantPlacement, err error,
) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	if _, getErr := there.Get(ctx, placed.Name, metav1.GetOptions{}); apierrors.IsForbidden(getErr) {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("partition %s has just started: try again",
			placed.Spec.Partition))
	}
	return err
}

// active says that the Tenant of a placement is there. It is a conflict if the placement
// went, or goes, while the Tenant was made: then that goes, too.
func (p *Placer) active(
	ctx context.Context, there *tenantapi.Client, placed *partitionapi.TenantPlacement, t *tenantapi.Tenant,
) error {
	for {
		err := p.record(ctx, placed, t)
		if err == nil || !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		now, err := p.placements.Get(ctx, placed.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err != nil || now.UID != placed.UID || now.Status.Phase == partitionapi.PlacementDeleting {
			break
		}
		if now.Status.TenantUID == t.UID && now.Status.Phase == partitionapi.PlacementActive {
			return nil // somebody else went on with it
		}
		placed = now // something else of it was changed
	}
	if err := there.Delete(ctx, t.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &t.UID}}); err != nil && !apierrors.IsNotFound(err) {
		p.log.WithError(err).WithField("tenant", t.Name).Warn("a tenant that was deleted while it was made is there")
	}
	return apierrors.NewConflict(tenantapi.GroupResource(), t.Name, errors.New("it was deleted while it was made"))
}

// record writes that the Tenant of a placement is there, and which one.
func (p *Placer) record(ctx context.Context, placed *partitionapi.TenantPlacement, t *tenantapi.Tenant) error {
	out := placed.DeepCopy()
	out.Spec.Tenant = nil
	out.Status = partitionapi.TenantPlacementStatus{Phase: partitionapi.PlacementActive, TenantUID: t.UID,
		TenantCreated: t.CreationTimestamp.DeepCopy()}
	out, err := p.placements.Update(ctx, out, metav1.UpdateOptions{})
	if err == nil {
		p.dir.Note(out)
	}
	return err
}

// drop frees a name.
func (p *Placer) drop(ctx context.Context, placed *partitionapi.TenantPlacement) error {
	err := p.placements.Delete(ctx, placed.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &placed.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
