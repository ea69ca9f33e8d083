package tokenreview

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/registry/authentication/tokenreview"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// REST is the storage of tokenreviews. It embeds upstream's, which answers
// requests that are addressed to no space.
type REST struct {
	*tokenreview.REST
	inner     authenticator.Request
	audiences []string
}

// New makes the storage that takes the place of upstream's in group
// authentication.k8s.io; the arguments are what upstream's gets.
func New(inner authenticator.Request, audiences []string) *REST {
	return &REST{REST: tokenreview.NewREST(inner, audiences), inner: inner, audiences: audiences}
}

// Create implements rest.Creater.
func (r *REST) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *v1.CreateOptions,
) (runtime.Object, error) {
	tenant, ok := space.FromContext(ctx)
	if !ok || r.inner == nil {
		return r.REST.Create(ctx, obj, validate, options)
	}
	return tokenreview.NewREST(authn.Confine(r.inner, tenant), r.audiences).Create(ctx, obj, validate, options)
}
