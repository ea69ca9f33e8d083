package tokenreview

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/registry/authentication/tokenreview"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// REST is the storage of tokenreviews. It embeds upstream's, of which each review
// has one for itself.
type REST struct {
	*tokenreview.REST
	inner     authenticator.Request
	audiences []string
}

// New makes the storage that takes the place of upstream's in group
// authentication.k8s.io; the arguments are what upstream's gets.
func New(inner authenticator.Request, audiences []string) *REST {
	if inner != nil {
		inner = forAudiences(inner, audiences)
	}
	return &REST{REST: tokenreview.NewREST(inner, audiences), inner: inner, audiences: audiences}
}

// Create implements rest.Creater.
func (r *REST) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *v1.CreateOptions,
) (runtime.Object, error) {
	if r.inner == nil {
		return r.REST.Create(ctx, obj, validate, options)
	}
	// What waits for a tenant's provider gives up the seat of the request that asks, and ends with that.
	var inner authenticator.Request = authenticator.RequestFunc(
		func(req *http.Request) (*authenticator.Response, bool, error) {
			during, cancel := context.WithCancel(fairqueue.With(req.Context(), fairqueue.Of(ctx)))
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			return r.inner.AuthenticateRequest(req.WithContext(during))
		})
	if tenant, ok := space.FromContext(ctx); ok {
		inner = authn.Confine(inner, tenant)
	}
	return tokenreview.NewREST(inner, r.audiences).Create(ctx, obj, validate, options)
}

// forAudiences has users whose authenticator knows nothing of audiences, as that of tenants' providers, be those
// of the API, as upstream has it: a review for another audience is not about them.
func forAudiences(inner authenticator.Request, api authenticator.Audiences) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := inner.AuthenticateRequest(req)
		asked, are := authenticator.AudiencesFrom(req.Context())
		if err != nil || !ok || response == nil || len(response.Audiences) > 0 || !are {
			return response, ok, err
		}
		of := api.Intersect(asked)
		if len(of) == 0 {
			return nil, false, nil
		}
		answer := *response
		answer.Audiences = of
		return &answer, true, nil
	})
}
