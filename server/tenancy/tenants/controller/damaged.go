package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// findDamaged marks spaces that were ready once and have no namespace called
// default, so that they are made again. It is done once per start: no user can
// delete that namespace, but a datastore can be restored or repaired.
func (c *controller) findDamaged(ctx context.Context) error {
	var ready []*tenantapi.Tenant
	for _, obj := range c.store.List() {
		t := obj.(*tenantapi.Tenant)
		if t.Name != space.System && t.DeletionTimestamp.IsZero() && t.Made() {
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
