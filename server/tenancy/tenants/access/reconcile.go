package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// failure is why an access is not ready, in the words of its condition.
type failure struct {
	reason string
	err    error
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

func failed(reason, format string, args ...any) error {
	return &failure{reason, fmt.Errorf(format, args...)}
}

// reconcile brings the Secret and the binding of an access into the state that it says. again is
// when there is something to do for it next.
func (c *controller) reconcile(ctx context.Context, name string) (again time.Duration, err error) {
	obj, there, err := c.known.GetByKey(name)
	if err != nil || !there {
		return 0, err
	}
	is, ok := obj.(*tenantapi.TenantAccess)
	if !ok {
		return 0, nil
	}
	w, err := c.on(is)
	if err != nil {
		return 0, err
	}
	a, now := w.a, time.Now()
	if a.DeletionTimestamp != nil {
		return 0, w.end(ctx)
	}
	was := a.Status.DeepCopy()
	condition := metav1.Condition{Type: tenantapi.AccessReady, ObservedGeneration: a.Generation}
	switch creds, err := w.keep(ctx, now); {
	case errors.Is(err, errGone):
		return 0, nil
	case err == nil && creds == nil:
		condition.Status, condition.Reason = metav1.ConditionFalse, tenantapi.ReasonExpired
		condition.Message = "the access has ended, and has no Secret any more"
	case err == nil:
		condition.Status, condition.Reason = metav1.ConditionTrue, tenantapi.ReasonIssued
		condition.Message = fmt.Sprintf("the Secret %s/%s has credentials of %s in the space %s",
			a.Spec.Secret.Namespace, a.Spec.Secret.Name, who(a), a.Spec.Tenant) + creds.shortened(a)
		again = max(soonest, min(look, creds.renewal(a).Sub(now)))
	default:
		var why *failure
		if !errors.As(err, &why) {
			why = &failure{tenantapi.ReasonNotIssued, w.told(err)}
		}
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, why.reason, why.Error()
		if why.reason == tenantapi.ReasonCordoned {
			return look, w.report(ctx, was, condition) // the end of that is told
		}
		return 0, errors.Join(err, w.report(ctx, was, condition))
	}
	return again, w.report(ctx, was, condition)
}

// errOfServer is what a space is told of an error that is the server's own.
var errOfServer = errors.New("the server cannot give credentials at the moment: its log says why")

// told is what a condition says of an error. What a file of the server has is not for the users of a tenant.
func (w *work) told(err error) error {
	var of *problem.Precondition
	if w.isOwn && errors.As(err, &of) {
		return errOfServer
	}
	return err
}

// errGone is an access that is not there any more, to be matched with errors.Is.
var errGone = errors.New("the TenantAccess is gone")

// work is what is done for one access.
type work struct {
	*controller
	// a has its name in the space that it is in, and says the tenant whose space it is to.
	a *tenantapi.TenantAccess
	// inside is its name inside, and said what it says of the tenant.
	inside, said string
	// isOwn is set for one in the space of a tenant. home is the space that it and its Secret are in.
	isOwn bool
	home  kubernetes.Interface
}

// on begins to work on an access.
func (c *controller) on(is *tenantapi.TenantAccess) (*work, error) {
	of, _ := is.Of()
	w := &work{controller: c, inside: is.Name, said: is.Spec.Tenant, isOwn: !space.IsSystem(of), home: c.system}
	w.read(is.DeepCopy())
	if !w.isOwn {
		return w, nil
	}
	in, err := c.in(of)
	if err != nil {
		return nil, err
	}
	w.home = in
	return w, nil
}

// read takes what is stored of the access.
func (w *work) read(a *tenantapi.TenantAccess) {
	_, name := a.Of()
	a.Spec.Tenant = a.To()
	a.Name = name
	w.a = a
}

// stored is the access as it is stored.
func (w *work) stored() *tenantapi.TenantAccess {
	a := w.a.DeepCopy()
	a.Name, a.Spec.Tenant = w.inside, w.said
	return a
}

// where is the space that the access is in, in messages.
func (w *work) where() string {
	if w.isOwn {
		return "this space"
	}
	return "the system space"
}

// mayGive reports, as an error, that an access in the space of a tenant gives nothing new. t has been looked for
// before: an access that is there now is one of that tenant, or t is one of before, of whose credentials nothing
// is good any more.
func (w *work) mayGive(ctx context.Context, t *tenantapi.Tenant) error {
	if !w.isOwn {
		return nil
	}
	if t.ReadsOnly() {
		return failed(tenantapi.ReasonCordoned, "the space is cordoned by an administrator of the cluster: no new "+
			"credentials are given out in it")
	}
	now, err := w.accesses.Get(ctx, w.inside, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && (now.UID != w.a.UID || now.DeletionTimestamp != nil):
		return errGone
	case err != nil:
		return fmt.Errorf("looking for the access: %w", err)
	}
	return nil
}

// who is whom an access is for, in messages.
func who(a *tenantapi.TenantAccess) string {
	if account := a.Spec.ServiceAccount; account != nil {
		return "the service account " + account.Namespace + "/" + account.Name
	}
	return "user " + a.Spec.User
}

// keep makes what an access says, and gives its credentials, nil if the access has ended.
func (w *work) keep(ctx context.Context, now time.Time) (*credentials, error) {
	a := w.a
	if ended(a, now) {
		if err := w.release(ctx); err != nil {
			return nil, err
		}
		a.Status.ExpirationTimestamp, a.Status.Binding = nil, nil
		return nil, nil
	}
	t, err := w.tenant(ctx, a.Spec.Tenant)
	if err != nil {
		return nil, err
	}
	if err := w.mayGive(ctx, t); err != nil {
		return nil, err
	}
	if err := w.sameNamespaces(ctx); err != nil {
		return nil, err
	}
	a = w.a
	// Before anything is bound for a Secret that cannot be. What was bound is what the access
	// says, also without it.
	secret, cannot := w.find(ctx)
	if cannot == nil && secret == nil {
		cannot = w.place(ctx)
	}
	if cannot != nil && (a.Status.Binding == nil || a.Status.TenantUID != t.UID) {
		return nil, cannot
	}
	in, err := w.in(t.Name)
	if err != nil {
		return nil, err
	}
	if err := w.bind(ctx, t, in); err != nil || cannot != nil {
		return nil, cmp.Or(cannot, err)
	}
	a = w.a // what is stored of it may be another one by now
	creds, err := w.credentials(ctx, a, t, in, secret, now)
	if err != nil {
		return nil, err
	}
	if err := w.write(ctx, secret, creds); err != nil {
		return nil, err
	}
	end := metav1.NewTime(creds.notAfter)
	a.Status.TenantUID, a.Status.ExpirationTimestamp = t.UID, &end
	return creds, nil
}

// tenant is the one of an access, which has to be of this partition and to live: nothing tells here
// what becomes of one of another partition.
func (c *controller) tenant(ctx context.Context, name string) (*tenantapi.Tenant, error) {
	t, err := c.o.Tenants.Get(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case t == nil || space.IsSystem(t.Name):
		return nil, failed(tenantapi.ReasonNoTenant, "there is no Tenant %s in this partition; what the "+
			"Secret has is good for no later one of the name", name)
	}
	if c.o.Tenants.Known(name) == nil {
		// One that nobody has used, or that was made just now, is not placed elsewhere.
		where, err := c.placed(ctx, name)
		if err != nil {
			return nil, err
		}
		if where != "" && where != c.o.Partition {
			return nil, failed(tenantapi.ReasonOtherPartition, "the Tenant %s is in the partition %s: make the "+
				"access there, by the server URL/partitions/%s", name, where, where)
		}
	}
	if t.DeletionTimestamp != nil {
		return nil, failed(tenantapi.ReasonTerminating, "the Tenant %s is being deleted", t.Name)
	}
	return t, nil
}

// place looks for the namespace of a Secret that is to be made.
func (w *work) place(ctx context.Context) error {
	name := w.a.Spec.Secret.Namespace
	is, err := w.home.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return failed(tenantapi.ReasonNotIssued, "there is no namespace %s for the Secret in %s", name, w.where())
	case err != nil:
		return fmt.Errorf("looking for the namespace of the Secret: %w", err)
	case is.DeletionTimestamp != nil:
		return failed(tenantapi.ReasonNotIssued, "the namespace %s of the Secret is being deleted", name)
	}
	return nil
}

// end takes away what an access gave, and lets it go.
func (w *work) end(ctx context.Context) error {
	a := w.a
	if w.isOwn || !slices.Contains(a.Finalizers, tenantapi.AccessFinalizer) {
		return nil
	}
	if err := w.release(ctx); err != nil {
		return err
	}
	a.Finalizers = slices.DeleteFunc(a.Finalizers, func(f string) bool { return f == tenantapi.AccessFinalizer })
	_, err := w.accesses.Update(ctx, w.stored(), metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("letting the TenantAccess go: %w", err)
	}
	return nil
}

// release deletes the Secret and the binding of an access. Those of others of the names stay. The
// tenant may be out of reach: the Secret goes all the same.
func (w *work) release(ctx context.Context) error {
	return errors.Join(w.deleteSecret(ctx), w.unbind(ctx))
}

// unbind deletes the binding of an access, if its tenant is there. Without one nobody is asked.
func (w *work) unbind(ctx context.Context) error {
	a := w.a
	if a.Status.Binding == nil {
		return nil
	}
	t, err := w.o.Tenants.Get(ctx, a.Spec.Tenant)
	if err != nil || t == nil || t.UID != a.Status.TenantUID || t.DeletionTimestamp != nil {
		return err
	}
	in, err := w.in(t.Name)
	if err != nil {
		return err
	}
	return in.unbind(ctx, *a.Status.Binding)
}

func (w *work) deleteSecret(ctx context.Context) error {
	secret, err := w.find(ctx)
	var why *failure
	if errors.As(err, &why) && why.reason == tenantapi.ReasonSecretTaken {
		return nil
	}
	if err != nil || secret == nil {
		return err
	}
	err = w.home.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(secret.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the Secret: %w", err)
	}
	return nil
}

// mostMessage is how long a condition's message is at most.
const mostMessage = 1024

// report writes the status with a condition, unless it stands there already.
func (w *work) report(
	ctx context.Context, was *tenantapi.TenantAccessStatus, condition metav1.Condition,
) error {
	a := w.a
	// It may have words of the tenant in it, and administrators read it on terminals.
	condition.Message = problem.Short(problem.Line(condition.Message), mostMessage)
	meta.SetStatusCondition(&a.Status.Conditions, condition)
	if apiequality.Semantic.DeepEqual(&a.Status, was) {
		return nil
	}
	return w.writeStatus(ctx)
}

func (w *work) writeStatus(ctx context.Context) error {
	updated, err := w.accesses.UpdateStatus(ctx, w.stored(), metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status of the TenantAccess: %w", err)
	}
	w.read(updated)
	return nil
}
