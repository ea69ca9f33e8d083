package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/templates"
)

const (
	// mostAccesses is how many accesses the status of a tenant names at most: those of two templates.
	mostAccesses = 2 * tenantapi.MaxTemplateAccesses
	// ending is how long the end of an access is waited for that another one follows.
	ending = 5 * time.Second
	// page is how many dormant tenants are awakened at a time.
	page = 500
)

// accesses are the names of the accesses that were made for a tenant by its status.
func accesses(t *tenantapi.Tenant) []string {
	if t.Status.Template == nil {
		return nil
	}
	return t.Status.Template.Access
}

// grants are the accesses that templates make. They are in the system space, where no tenant writes: whose one is
// stands in itself, the Tenant is its owner. So it ends with the Tenant, too.
type grants struct {
	accesses *tenantapi.AccessClient
	// write writes the status of a Tenant.
	write func(context.Context, *tenantapi.Tenant) error
}

// grant makes the accesses of a tenant, and takes away what it had besides.
func (g grants) grant(ctx context.Context, t *tenantapi.Tenant, template *tenantapi.TenantTemplate) error {
	want, err := templates.Accesses(template, t)
	if err != nil {
		return err
	}
	var names []string
	for _, a := range want {
		names = append(names, a.Name)
	}
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(names, accesses(t)))))
	if len(all) > mostAccesses {
		if err := g.withdraw(ctx, t, names); err != nil {
			return err
		}
		all = slices.Sorted(slices.Values(names))
	}
	if !slices.Equal(all, accesses(t)) {
		if t.Status.Template == nil {
			t.Status.Template = &tenantapi.AppliedTemplate{Name: template.Name, UID: template.UID}
		}
		t.Status.Template.Access = all
		if err := g.write(ctx, t); err != nil {
			return err
		}
	}
	for _, a := range want {
		if err := g.give(ctx, t, template, a); err != nil {
			return fmt.Errorf("TenantAccess %s: %w", a.Name, err)
		}
	}
	return g.withdraw(ctx, t, names)
}

// keep brings the accesses that a tenant has into the state that its template says: it waits for no turn and for
// nothing in the space, because who shall get in no more would until then. A nil template has none. New accesses
// come with the objects.
func (g grants) keep(ctx context.Context, t *tenantapi.Tenant, template *tenantapi.TenantTemplate) error {
	has := accesses(t)
	if len(has) == 0 {
		return nil
	}
	var want []*tenantapi.TenantAccess
	var names []string
	var errs []error
	if template != nil {
		// Those of a template that this server knows as it was before stay: nobody would make them again.
		if is := t.Status.Template; is.UID == template.UID && is.Generation > template.Generation {
			return nil
		}
		names = templates.AccessNames(template, t)
		var err error
		if want, err = templates.Accesses(template, t); err != nil {
			errs = append(errs, err)
		}
		want = slices.DeleteFunc(want, func(a *tenantapi.TenantAccess) bool { return !slices.Contains(has, a.Name) })
	}
	errs = append(errs, g.withdraw(ctx, t, names))
	if len(accesses(t)) < len(has) {
		errs = append(errs, g.write(ctx, t))
	}
	for _, a := range want {
		if err := g.give(ctx, t, template, a); err != nil {
			errs = append(errs, fmt.Errorf("TenantAccess %s: %w", a.Name, err))
		}
	}
	return errors.Join(errs...)
}

// give makes an access what a template says: all of it, so that nobody adds a namespace or a longer life.
func (g grants) give(
	ctx context.Context, t *tenantapi.Tenant, template *tenantapi.TenantTemplate, a *tenantapi.TenantAccess,
) error {
	owner := metav1.NewControllerRef(t, tenantapi.GroupVersion().WithKind(tenantapi.Kind))
	owner.BlockOwnerDeletion = nil
	a.Labels, a.OwnerReferences = map[string]string{templates.Label: template.Name}, []metav1.OwnerReference{*owner}
	var is *tenantapi.TenantAccess
	err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		if is, err = g.accesses.Get(ctx, a.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !metav1.IsControlledBy(is, t) {
			return errors.New("there is one of this name, which is not this tenant's: it is left alone")
		}
		if is.DeletionTimestamp != nil {
			return nil
		}
		next := is.DeepCopy() // with the UID and the version
		metav1.SetMetaDataLabel(&next.ObjectMeta, templates.Label, template.Name)
		next.Spec = a.Spec
		_, err = g.accesses.Update(ctx, next, metav1.UpdateOptions{FieldManager: manager})
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return g.create(ctx, a, nil)
	case apierrors.IsInvalid(err):
		// Who it is for and where its Secret is cannot change. Nothing is taken away for what could not be.
		anew := a.DeepCopy()
		anew.Name = string(uuid.NewUUID())
		if g.create(ctx, anew, []string{metav1.DryRunAll}) != nil {
			return err
		}
		if err := g.end(ctx, is); err != nil {
			return err
		}
	case err != nil || is.DeletionTimestamp == nil:
		return err
	}
	if err := wait.PollUntilContextTimeout(ctx, minWait, ending, true, func(ctx context.Context) (bool, error) {
		_, err := g.accesses.Get(ctx, a.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}); err != nil {
		return fmt.Errorf("the one of before is being deleted: %w", err)
	}
	return g.create(ctx, a, nil)
}

// create makes an access, and never takes over one that somebody has just made.
func (g grants) create(ctx context.Context, a *tenantapi.TenantAccess, dryRun []string) error {
	_, err := g.accesses.Create(ctx, a, metav1.CreateOptions{FieldManager: manager, DryRun: dryRun})
	return err
}

// withdraw deletes the accesses of a tenant but for some. Those of others of the names stay.
func (g grants) withdraw(ctx context.Context, t *tenantapi.Tenant, but []string) error {
	var errs []error
	for _, name := range accesses(t) {
		if slices.Contains(but, name) {
			continue
		}
		is, err := g.accesses.Get(ctx, name, metav1.GetOptions{})
		if err == nil && metav1.IsControlledBy(is, t) {
			err = g.end(ctx, is)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("TenantAccess %s, which the template has no more: %w", name, err))
			continue
		}
		t.Status.Template.Access = slices.DeleteFunc(slices.Clone(accesses(t)),
			func(is string) bool { return is == name })
	}
	return errors.Join(errs...)
}

func (g grants) end(ctx context.Context, a *tenantapi.TenantAccess) error {
	err := g.accesses.Delete(ctx, a.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(a.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone
		return nil
	}
	return err
}

// sleepers are the dormant tenants of templates. One worker alone has them, because a list of them can take long.
type sleepers struct {
	tenants *tenantapi.Client
	// template finds a template, or nil.
	template func(name string) *tenantapi.TenantTemplate
	// awake are the templates whose tenants were awakened, or are from a token on.
	awake map[string]*awakening
}

type awakening struct {
	uid  types.UID
	from string
	done bool
}

// awaken has the spaces of dormant tenants made when their template gets its first access: who has these waits for
// them, and makes no request before. The registry awakens those that get the template later.
func (s sleepers) awaken(ctx context.Context, name string) error {
	template := s.template(name)
	if template == nil || len(template.Spec.Access) == 0 {
		delete(s.awake, name)
		return nil
	}
	is := s.awake[template.Name]
	if is == nil || is.uid != template.UID {
		is = &awakening{uid: template.UID}
		s.awake[template.Name] = is
	}
	for !is.done {
		list, err := s.tenants.List(ctx, metav1.ListOptions{Limit: page, Continue: is.from,
			FieldSelector: fields.AndSelectors(
				fields.OneTermEqualSelector(tenantapi.SelectTemplate, template.Name),
				fields.OneTermEqualSelector(tenantapi.SelectDormant, "true")).String()})
		if apierrors.IsResourceExpired(err) {
			is.from = ""
		}
		if err != nil {
			return fmt.Errorf("looking for dormant tenants of the TenantTemplate %s: %w", template.Name, err)
		}
		for i := range list.Items {
			t := &list.Items[i]
			meta.RemoveStatusCondition(&t.Status.Conditions, tenantapi.SpaceReady)
			if _, err := s.tenants.UpdateStatus(ctx, t, metav1.UpdateOptions{}); err != nil &&
				!apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return fmt.Errorf("having the space of tenant %s made: %w", t.Name, err)
			}
		}
		is.from, is.done = list.Continue, list.Continue == ""
	}
	return nil
}
