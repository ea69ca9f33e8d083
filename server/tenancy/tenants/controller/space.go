package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// Names of the default objects, in native form.
const (
	// adminRole and adminBinding make the user and the group below
	// administrators of the space.
	adminRole    = "admin-role"
	adminBinding = "admin-role-binding"
	adminUser    = space.Admin
	adminGroup   = space.Masters
)

func defaultNamespaces() []string {
	return []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}
}

// makeSpace makes what is missing of the default objects.
func (c *controller) makeSpace(ctx context.Context, tenant string) error {
	if tenant == space.System {
		return c.makeSystem(ctx)
	}
	for _, name := range defaultNamespaces() {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space.Namespace(tenant, name)}}
		if _, err := c.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); ignoreExists(err) != nil {
			return fmt.Errorf("making the namespace %s: %w", name, err)
		}
	}
	role := adminClusterRole(tenant)
	if _, err := c.client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); ignoreExists(err) != nil {
		return fmt.Errorf("making the cluster role %s: %w", adminRole, err)
	}
	if _, err := c.client.RbacV1().ClusterRoleBindings().Create(ctx, adminClusterRoleBinding(tenant),
		metav1.CreateOptions{}); ignoreExists(err) != nil {
		return fmt.Errorf("making the cluster role binding %s: %w", adminBinding, err)
	}
	return nil
}

// makeSystem makes what the system space has besides what every cluster has: the
// same binding as every space, for the user of the same name.
func (c *controller) makeSystem(ctx context.Context) error {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: adminBinding},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: space.Admins}},
	}
	if _, err := c.client.RbacV1().ClusterRoleBindings().Create(ctx, binding,
		metav1.CreateOptions{}); ignoreExists(err) != nil {
		return fmt.Errorf("making the cluster role binding %s: %w", adminBinding, err)
	}
	return nil
}

func adminClusterRole(tenant string) *rbacv1.ClusterRole {
	all := []string{"*"}
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: space.ClusterName(tenant, adminRole)},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: all, Resources: all, Verbs: all},
			{NonResourceURLs: all, Verbs: all},
		},
	}
}

func adminClusterRoleBinding(tenant string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: space.ClusterName(tenant, adminBinding)},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: space.ClusterName(tenant, adminRole)},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: adminUser},
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: adminGroup},
		},
	}
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// findDamaged marks spaces that were ready once and have no namespace called
// default, so that they are made again. It is done once per start: no user can
// delete that namespace, but a datastore can be restored or repaired.
func (c *controller) findDamaged(ctx context.Context) error {
	var ready []*tenantapi.Tenant
	for _, obj := range c.store.List() {
		t := obj.(*tenantapi.Tenant)
		if t.Name != space.System && t.DeletionTimestamp.IsZero() &&
			meta.IsStatusConditionTrue(t.Status.Conditions, tenantapi.SpaceReady) {
			ready = append(ready, t)
		}
	}
	if len(ready) == 0 {
		return nil
	}
	whole := map[string]bool{}
	err := eachPage(ctx, c.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")),
		func(page []metav1.PartialObjectMetadata) {
			for i := range page {
				if tenant, native := space.SplitNamespace(page[i].Name); native == metav1.NamespaceDefault {
					whole[tenant] = true
				}
			}
		})
	if err != nil {
		return err
	}
	for _, t := range ready {
		if whole[t.Name] {
			continue
		}
		c.log.WithField("tenant", t.Name).Warn("the space has no namespace called default and is made again")
		err := c.report(ctx, t.DeepCopy(), metav1.Condition{
			Type: tenantapi.SpaceReady, Status: metav1.ConditionFalse, Reason: "Damaged",
			Message: "the namespace default was missing",
		})
		if err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}
