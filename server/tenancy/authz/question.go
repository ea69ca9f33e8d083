package authz

import (
	"context"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// Question is what somebody asks in native words of tenant about u, as a request
// of u for it would be inside. Every word is composed, whatever it looks like: one
// that has the form of a composite name is that of something in the space which is
// called so, and nothing there can be.
//
// Selectors are left out: the roles of a space do not look at them.
func Question(table *kinds.Table, tenant string, a authorizer.Attributes, u user.Info) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: u, Verb: a.GetVerb(), ResourceRequest: a.IsResourceRequest(), Path: a.GetPath(),
		Namespace: space.Namespace(tenant, a.GetNamespace()), Name: composedName(table, tenant, a),
		APIGroup: a.GetAPIGroup(), APIVersion: a.GetAPIVersion(),
		Resource: a.GetResource(), Subresource: a.GetSubresource(),
	}
}

// Apart is a context in which a question is no part of the request that caused it.
func Apart(ctx context.Context, tenant string) context.Context {
	return request.WithRequestInfo(space.WithTenant(ctx, tenant), &request.RequestInfo{})
}

// composedName is the name of the object of a question in native words, as the
// edge composes that of a request.
func composedName(table *kinds.Table, tenant string, a authorizer.Attributes) string {
	name := a.GetName()
	kind, known := table.Resource(a.GetAPIGroup(), a.GetResource())
	switch {
	case name == "" || name == everything:
		return name
	case impersonates(a) && a.GetResource() == "users":
		return space.User(tenant, name)
	case impersonates(a) && a.GetResource() == "groups":
		return space.Group(tenant, name)
	case impersonates(a):
		return name
	case a.GetAPIGroup() == "" && a.GetResource() == "namespaces":
		return space.Namespace(tenant, name)
	case isClusterRole(a) && kinds.SharedClusterRole(name):
		return name
	case known && (kind.Namespaced || kind.Class != kinds.Tenant || kinds.IsReview(kind.Group)):
		return name
	case !known && a.GetNamespace() != "":
		return name // of a namespaced custom resource
	}
	return space.ClusterName(tenant, name)
}

// nativeWords reports whether the name in a question is native: that in a review
// which is addressed to a space, whose other words are composed on the way, and
// that of the parameter of an admission policy.
func nativeWords(ctx context.Context, tenant string, a authorizer.Attributes) bool {
	addressed, ok := space.FromContext(ctx)
	return ok && addressed == tenant && (asked(ctx) || parameter(ctx, a))
}

// asked reports whether the authorizer is asked on behalf of a review, not of a
// request that will touch the object.
func asked(ctx context.Context) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && info.IsResourceRequest && info.APIGroup == authorizationv1.GroupName
}

// parameter reports whether the question is about the parameter of an admission
// policy, on behalf of its binding. The tenant's own plugins look for it, so the
// binding names it as the tenant does.
func parameter(ctx context.Context, a authorizer.Attributes) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && info.IsResourceRequest && info.APIGroup == admissionregistrationv1.GroupName &&
		strings.HasSuffix(info.Resource, "bindings") && a.GetResource() != info.Resource
}
