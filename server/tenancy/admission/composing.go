package admission

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authz"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// composing answers what CEL expressions of a tenant ask about permissions. Their
// words are the tenant's, all of them: no answer depends on anything outside of the
// space.
type composing struct {
	inner  authorizer.UnconditionalAuthorizer
	kinds  *kinds.Table
	tenant string
}

// errUndecided stands for any error of the system's authorizers.
var errUndecided = errors.New("what the user may do cannot be decided")

// Authorize implements authorizer.UnconditionalAuthorizer.
func (c composing) Authorize(ctx context.Context, attr authorizer.Attributes) (authorizer.Decision, string, error) {
	who := composedUser(attr.GetUser(), c.tenant)
	question, ctx := authz.Question(c.kinds, c.tenant, attr, who), authz.Apart(ctx, c.tenant)
	if !space.IsSystem(space.TenantOf(who)) {
		return c.inner.Authorize(ctx, question)
	}
	// A controller of the cluster writes for the tenant. What else it may do, and by
	// which roles, is not the tenant's to know.
	if !c.inSpace(question) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	decision, _, err := c.inner.Authorize(ctx, question)
	if err != nil && decision != authorizer.DecisionAllow {
		return decision, "", errUndecided
	}
	return decision, "", nil
}

// inSpace reports whether a question is about what is in a space, or what all of
// them have.
func (c composing) inSpace(q authorizer.AttributesRecord) bool {
	if !q.ResourceRequest {
		return kinds.OpenPath(q.Path)
	}
	kind, known := c.kinds.Resource(q.APIGroup, q.Resource)
	return !known || kind.Class == kinds.Tenant
}
