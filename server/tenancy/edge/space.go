package edge

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// Spaces makes the spaces of tenants.
type Spaces interface {
	// Ensure returns when the space of a tenant is made, or why it cannot be used.
	Ensure(ctx context.Context, tenant string) error
}

// openSpace is the step that has the space of a request be there. Comes in: the space that
// the request is addressed to. Goes out: nothing, or why it cannot be used. Of a space that is
// not the user's it says nothing: the authorizer refuses that without saying whether it exists.
func (e *Edge) openSpace(req *http.Request, r *request) (err error) {
	own := r.space == r.ofTenant
	switch {
	case r.space == space.System, r.space == space.All:
	case own && r.userTenant == r.space && e.opts.Spaces != nil:
		// Before the authorizer is asked, which judges by roles of the space. Who is
		// impersonated has yet to be let in.
		fairqueue.Of(req.Context()).Wait(func() { err = e.opts.Spaces.Ensure(req.Context(), r.space) })
	case own, space.IsSystem(r.ofTenant):
		err = e.mustExist(req.Context(), r.space)
	}
	return err
}

// mustExist refuses requests to a tenant that does not exist.
func (e *Edge) mustExist(ctx context.Context, tenant string) error {
	exists, err := e.opts.Tenants.Exists(ctx, tenant)
	switch {
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("looking for the tenant: %w", err))
	case !exists:
		return noTenant(tenant)
	}
	return nil
}

func noTenant(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "tenants"}, name)
}
