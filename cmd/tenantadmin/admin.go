package tenantadmin

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// ErrTerminating is a tenant that is being deleted and cannot be used.
var ErrTerminating = errors.New("it is being deleted")

// Admin works on the tenants of one cluster.
type Admin struct {
	cfg     *rest.Config
	server  string
	kube    kubernetes.Interface
	tenants *tenantapi.Client
	// placements are those of a cluster of several partitions.
	placements *partitionapi.PlacementClient
}

// New returns an Admin with the rights of cfg, which addresses the cluster and
// not one of its spaces.
func New(cfg *rest.Config) (*Admin, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // waiting has a pace of its own
	u, err := ServerURL(cfg)
	if err != nil {
		return nil, err
	}
	a := &Admin{cfg: cfg, server: u.String()}
	http, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	if a.kube, err = kubernetes.NewForConfigAndClient(cfg, http); err != nil {
		return nil, err
	}
	if a.tenants, err = tenantapi.NewClient(cfg, http); err != nil {
		return nil, err
	}
	if a.placements, err = partitionapi.NewPlacementClient(cfg, http); err != nil {
		return nil, err
	}
	return a, nil
}

// Server is the URL of the cluster.
func (a *Admin) Server() string { return a.server }

// Get returns a tenant.
func (a *Admin) Get(ctx context.Context, name string) (*tenantapi.Tenant, error) {
	return a.tenants.Get(ctx, name, metav1.GetOptions{})
}

// Count is how many tenants the server has.
func (a *Admin) Count(ctx context.Context) (int64, error) {
	page, err := a.tenants.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	n := int64(len(page.Items))
	if left := page.RemainingItemCount; left != nil {
		n += *left
	}
	return n, nil
}

// List returns all tenants.
func (a *Admin) List(ctx context.Context) (*tenantapi.TenantList, error) {
	all := &tenantapi.TenantList{}
	for options := (metav1.ListOptions{}); ; {
		page, err := a.tenants.List(ctx, options)
		if err != nil {
			return nil, err
		}
		all.ResourceVersion = page.ResourceVersion
		all.Items = append(all.Items, page.Items...)
		if options.Continue = page.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// Create makes a tenant unless it exists, in a partition, or in one that the cluster
// chooses if that is empty. One that is being deleted is ErrTerminating.
func (a *Admin) Create(ctx context.Context, name, partition string) (made bool, err error) {
	_, err = a.tenants.Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: tenantapi.TenantSpec{Partition: partition}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err == nil, err
	}
	t, getErr := a.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(getErr):
		return false, err // its partition has lost it
	case getErr == nil && terminating(t):
		getErr = ErrTerminating
	}
	return false, getErr
}

func terminating(t *tenantapi.Tenant) bool {
	return !t.DeletionTimestamp.IsZero() || t.Status.Phase == tenantapi.Terminating
}

// WaitReady waits until the space can be used.
func (a *Admin) WaitReady(ctx context.Context, name string) error {
	inside, err := a.space(name)
	if err != nil {
		return err
	}
	return until(ctx, "tenant "+name+" is not ready", nil, func(ctx context.Context) (string, error) {
		t, err := a.Get(ctx, name)
		switch {
		case err != nil:
			return "", err
		case terminating(t):
			return "", ErrTerminating
		case t.Status.Phase != tenantapi.Active:
			return fmt.Sprintf("its phase to become %s, it is %q", tenantapi.Active, t.Status.Phase), nil
		case !meta.IsStatusConditionTrue(t.Status.Conditions, tenantapi.SpaceReady):
			return "its default objects" + messageOf(t, tenantapi.SpaceReady), nil
		}
		_, err = inside.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "its namespace " + metav1.NamespaceDefault, nil
		}
		return "", err
	})
}

// Delete marks a tenant as deleted, unless it is already. uid tells this
// tenant from a later one of the same name.
func (a *Admin) Delete(ctx context.Context, name string) (uid types.UID, marked bool, err error) {
	t, err := a.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		// Its partition may have lost it, by a restore, and its name is still taken.
		if placed, e := a.placements.Get(ctx, name, metav1.GetOptions{}); e == nil {
			uid = placed.Status.TenantUID
			return uid, true, a.tenants.Delete(ctx, name,
				metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))})
		}
	}
	if err != nil {
		return "", false, err
	}
	if terminating(t) {
		return t.UID, false, nil
	}
	err = a.tenants.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(t.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return t.UID, false, nil // somebody else was faster
	}
	return t.UID, err == nil, err
}

// Running counts the pods that have not ended in the space of a tenant which a deletion would
// end. One that is not there, is being deleted, or is protected, loses none by it.
func (a *Admin) Running(ctx context.Context, name string) (pods int, err error) {
	t, err := a.Get(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return 0, nil
	case err != nil:
		return 0, err
	case terminating(t), t.Protected(), !t.Made():
		return 0, nil // and asking for pods would make the space of one that nobody has used
	}
	inside, err := a.space(name)
	if err != nil {
		return 0, err
	}
	const notEnded = "status.phase!=Succeeded,status.phase!=Failed"
	for options := (metav1.ListOptions{FieldSelector: notEnded, Limit: podsAtATime}); ; {
		page, err := inside.CoreV1().Pods("").List(ctx, options)
		if err != nil {
			return 0, err
		}
		pods += len(page.Items)
		if options.Continue = page.Continue; options.Continue == "" {
			return pods, nil
		}
	}
}

// WaitGone waits until a deleted tenant and everything in its space is gone, its
// placement too. progress learns what it waits for; meanwhile, unless it is nil, is called
// again and again.
func (a *Admin) WaitGone(
	ctx context.Context, name string, uid types.UID, progress func(string), meanwhile func(context.Context) error,
) error {
	return until(ctx, "tenant "+name+" is not gone", progress, func(ctx context.Context) (string, error) {
		t, err := a.Get(ctx, name)
		switch {
		case apierrors.IsNotFound(err) || err == nil && t.UID != uid:
			return placed(ctx, a.placements, name, uid)
		case err != nil:
			return "", err
		}
		if meanwhile != nil {
			// What it looks at, and the tenant itself, can go while it looks.
			if err := meanwhile(ctx); err != nil && !apierrors.IsNotFound(err) {
				return "", err
			}
		}
		return "its space to be emptied" + messageOf(t, tenantapi.SpaceEmpty), nil
	})
}

// placed says that the cluster has not forgotten yet where a tenant was.
func placed(
	ctx context.Context, placements *partitionapi.PlacementClient, name string, uid types.UID,
) (waitingFor string, err error) {
	p, err := placements.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && p.Status.TenantUID != uid:
		return "", nil // or a cluster of one partition
	case err != nil:
		return "", err
	}
	return "its placement in the partition " + p.Spec.Partition + " to go", nil
}

// messageOf is what a condition says, in brackets.
func messageOf(t *tenantapi.Tenant, condition string) string {
	c := meta.FindStatusCondition(t.Status.Conditions, condition)
	if c == nil || c.Message == "" {
		return ""
	}
	return " (" + c.Message + ")"
}

// space is a client of one space.
func (a *Admin) space(tenant string) (kubernetes.Interface, error) {
	cfg := rest.CopyConfig(a.cfg)
	cfg.Host = Address(a.server, tenant)
	return kubernetes.NewForConfig(cfg)
}

const (
	firstDelay, maxDelay = 20 * time.Millisecond, 500 * time.Millisecond
	progressEvery        = time.Second
)

// until calls check, ever less often, until it says that there is nothing left
// to wait for. An error that means that the server has other things to do is
// something to wait for, too.
func until(
	ctx context.Context, what string, progress func(string),
	check func(context.Context) (waitingFor string, err error),
) error {
	started, told, last := time.Now(), time.Time{}, ""
	for delay := firstDelay; ; delay = min(2*delay, maxDelay) {
		waitingFor, err := check(ctx)
		switch {
		case err == nil && waitingFor == "":
			return nil
		case err == nil:
		case ctx.Err() == nil && passing(err):
			waitingFor = "an answer of the server (" + err.Error() + ")"
		case ctx.Err() == nil:
			return err
		}
		if waitingFor == "" { // ctx ended the request
			waitingFor = last
		}
		if waitingFor == "" {
			waitingFor = "an answer of the server"
		}
		if progress != nil && waitingFor != last && time.Since(told) >= progressEvery {
			told = time.Now()
			progress(waitingFor)
		}
		last = waitingFor
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%s after %s, it waited for %s: %w", what,
				time.Since(started).Round(100*time.Millisecond), last, context.Cause(ctx))
		case <-timer.C:
		}
	}
}

// passing tells errors that go away by themselves.
func passing(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsInternalError(err) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		utilnet.IsTimeout(err)
}

// IsProtected reports whether the server refused to delete a tenant that is protected.
func IsProtected(err error) bool {
	return apierrors.HasStatusCause(err, tenantapi.CauseDeletionProtected)
}

// NotFound reports whether the server said that there is no such tenant.
func NotFound(err error, tenant string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	d := status.Status().Details
	return d != nil && d.Kind == tenantapi.Resource && d.Name == tenant
}

// Memberships are the tenants of which the user is a member, if the server said that they have to
// choose one; nil for any other error.
func Memberships(err error) (names []string) {
	var status apierrors.APIStatus
	if !apierrors.IsBadRequest(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	for _, c := range status.Status().Details.Causes {
		if c.Type == tenantapi.CauseMember {
			names = append(names, c.Message)
		}
	}
	return names
}
