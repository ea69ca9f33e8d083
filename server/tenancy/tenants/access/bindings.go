package access

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// inSpace is a client of the space of a tenant, as its users see it.
type inSpace struct{ kubernetes.Interface }

// in makes the client of the space of a tenant.
func (c *controller) in(tenant string) (*inSpace, error) {
	client, err := kubernetes.NewForConfigAndClient(tenantapi.InSpace(c.config, tenant), c.http)
	if err != nil {
		return nil, fmt.Errorf("making a client of the space %s: %w", tenant, err)
	}
	return &inSpace{client}, nil
}

// bindingOf is the binding that an access wants, nil for none. Its name has the UID, so that
// nobody has one before.
func bindingOf(a *tenantapi.TenantAccess) *tenantapi.AccessBinding {
	if a.Spec.Role == "" {
		return nil
	}
	return &tenantapi.AccessBinding{Namespace: a.Spec.Namespace, Name: "a4s:access:" + a.Name + ":" + string(a.UID)}
}

// subjectsOf are who has the role of an access.
func subjectsOf(a *tenantapi.TenantAccess) []rbacv1.Subject {
	if account := a.Spec.ServiceAccount; account != nil {
		return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}}
	}
	return []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: a.Spec.User}}
}

// bind makes the binding of an access what it says, and takes the one away that it had before.
func (w *work) bind(ctx context.Context, t *tenantapi.Tenant, in *inSpace) error {
	a := w.a
	want, had := bindingOf(a), a.Status.Binding
	if a.Status.TenantUID != t.UID {
		had = nil // it went with the space that it was in
	}
	if had != nil && (want == nil || *had != *want) {
		if err := in.unbind(ctx, *had); err != nil {
			return err
		}
	}
	if want != nil && (had == nil || *had != *want) {
		a.Status.Binding, a.Status.TenantUID = want, t.UID
		if err := w.writeStatus(ctx); err != nil {
			return err
		}
		a = w.a
	}
	a.Status.Binding = want
	if want == nil {
		return nil
	}
	_, err := in.RbacV1().ClusterRoles().Get(ctx, a.Spec.Role, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// There may be the binding of the role that it said before.
		return errors.Join(fmt.Errorf("there is no ClusterRole %s in the space %s", a.Spec.Role, t.Name),
			in.unbind(ctx, *want))
	}
	if err != nil {
		return fmt.Errorf("looking for the ClusterRole %s: %w", a.Spec.Role, err)
	}
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: a.Spec.Role}
	of := metav1.ObjectMeta{Name: want.Name}
	if w.isOwn { // it is in the same space, and goes with the access
		of.OwnerReferences = []metav1.OwnerReference{*ownerOf(a)}
	}
	if err := in.bind(ctx, want.Namespace, of, role, subjectsOf(a)); err != nil {
		return fmt.Errorf("binding the ClusterRole %s: %w", a.Spec.Role, err)
	}
	return nil
}

// bind makes a binding of a role to subjects. One that is another is made anew: its role cannot
// change.
func (s *inSpace) bind(
	ctx context.Context, namespace string, of metav1.ObjectMeta, role rbacv1.RoleRef, subjects []rbacv1.Subject,
) error {
	b := tenantapi.AccessBinding{Namespace: namespace, Name: of.Name}
	is, subjectsAre, uid, err := s.get(ctx, b)
	switch {
	case err == nil && is == role && apiequality.Semantic.DeepEqual(subjectsAre, subjects):
		return nil
	case err == nil:
		if err := s.delete(ctx, b, metav1.NewUIDPreconditions(string(uid))); err != nil {
			return err
		}
	case !apierrors.IsNotFound(err):
		return err
	}
	if b.Namespace != "" {
		_, err = s.RbacV1().RoleBindings(b.Namespace).Create(ctx,
			&rbacv1.RoleBinding{ObjectMeta: of, RoleRef: role, Subjects: subjects},
			metav1.CreateOptions{FieldManager: Name})
		return err
	}
	_, err = s.RbacV1().ClusterRoleBindings().Create(ctx,
		&rbacv1.ClusterRoleBinding{ObjectMeta: of, RoleRef: role, Subjects: subjects},
		metav1.CreateOptions{FieldManager: Name})
	return err
}

func (s *inSpace) get(
	ctx context.Context, b tenantapi.AccessBinding,
) (rbacv1.RoleRef, []rbacv1.Subject, types.UID, error) {
	if b.Namespace != "" {
		is, err := s.RbacV1().RoleBindings(b.Namespace).Get(ctx, b.Name, metav1.GetOptions{})
		return is.RoleRef, is.Subjects, is.UID, err
	}
	is, err := s.RbacV1().ClusterRoleBindings().Get(ctx, b.Name, metav1.GetOptions{})
	return is.RoleRef, is.Subjects, is.UID, err
}

// unbind takes a binding away. One that is kept by a finalizer is the tenant's own doing, in its
// own space: it holds up nothing here.
func (s *inSpace) unbind(ctx context.Context, b tenantapi.AccessBinding) error {
	if err := s.delete(ctx, b, nil); err != nil {
		return fmt.Errorf("deleting the binding %s: %w", b.Name, err)
	}
	return nil
}

func (s *inSpace) delete(ctx context.Context, b tenantapi.AccessBinding, only *metav1.Preconditions) error {
	options := metav1.DeleteOptions{Preconditions: only}
	var err error
	if b.Namespace != "" {
		err = s.RbacV1().RoleBindings(b.Namespace).Delete(ctx, b.Name, options)
	} else {
		err = s.RbacV1().ClusterRoleBindings().Delete(ctx, b.Name, options)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
