package provision

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// Authorizer has the request for which inner allows something wait until the space
// that it is addressed to is made.
//
// What inner is asked about besides does not count: a policy can have it judge any
// namespace.
func (p *Provisioner) Authorizer(inner authorizer.Authorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(
		ctx context.Context, a authorizer.Attributes,
	) (authorizer.Decision, string, error) {
		decision, reason, err := inner.Authorize(ctx, a)
		// Controllers come for what is there. Everybody may ask what the API is and what
		// they may do, and needs nothing of the space for it.
		if decision != authorizer.DecisionAllow || authn.IsController(a.GetUser()) || makesDefaults(a.GetUser()) ||
			!a.IsResourceRequest() || kinds.IsReview(a.GetAPIGroup()) || asController(a) {
			return decision, reason, err
		}
		if tenant := addressed(ctx); !space.IsSystem(tenant) && tenant != space.All {
			if err := p.ensure(ctx, tenant); err != nil && !apierrors.IsNotFound(err) {
				return authorizer.DecisionNoOpinion, "", err
			}
		}
		return decision, reason, err
	})
}

// asController reports whether it is asked if a part of a server may be somebody else, as a Maker is. Who it
// is then is asked about, too. No part does so otherwise, and nobody else has these names.
func asController(a authorizer.Attributes) bool {
	if !strings.HasPrefix(a.GetVerb(), "impersonate") || a.GetUser() == nil {
		return false
	}
	name := a.GetUser().GetName()
	return name == pki.UserSupervisor || name == user.APIServerUser
}

// makesDefaults reports whether a user is one of the controllers that podDefaults waits for.
// Each works on one namespace at a time: while it waited for a space, it would make nothing in
// any other.
func makesDefaults(u user.Info) bool {
	switch authn.ControllerAccount(u) {
	case "service-account-controller", "root-ca-cert-publisher":
		return true
	}
	return false
}

// addressed is the space of a request: by its path, or on a short path by its
// composite namespace.
func addressed(ctx context.Context) string {
	if tenant, ok := space.FromContext(ctx); ok {
		return tenant
	}
	info, ok := request.RequestInfoFrom(ctx)
	if !ok || info.Namespace == "" {
		return space.System
	}
	tenant, _ := space.SplitNamespace(info.Namespace)
	return tenant
}
