package edge

import (
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/internal/space"
)

// cordon is the step that lets users of a cordoned tenant read only. Comes in: a request, and the
// space that it is addressed to. Goes out: nothing, or why it is refused, before its body is read.
// What administrators of the cluster, controllers and nodes do in the space goes on; who
// impersonates a user of the tenant is one of them.
func (e *Edge) cordon(req *http.Request, r *request) error {
	tenant := r.actsFor(req.Header)
	if space.IsSystem(tenant) || e.opts.Tenants == nil || r.onlyReads(req.Method) {
		return nil
	}
	switch t, err := e.opts.Tenants.Get(req.Context(), tenant); {
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("looking for the tenant: %w", err))
	case t == nil || !t.ReadsOnly():
		return nil
	}
	gr, name := schema.GroupResource{}, ""
	if r.resource != nil {
		gr, name = r.resource.groupResource(), r.resource.name
	}
	return apierrors.NewForbidden(gr, name, fmt.Errorf("the space of tenant %s is cordoned: its users can read, and "+
		"change nothing, until an administrator of the cluster sets spec.cordoned of the Tenant to false", tenant))
}

// actsFor is the tenant of whoever the request acts as, which compose tells the API server.
func (r *request) actsFor(header http.Header) string {
	switch {
	case !space.IsSystem(r.userTenant):
		return r.userTenant
	case header.Get(authenticationv1.ImpersonateUserHeader) != "":
		return r.space
	}
	return space.System
}

// onlyReads reports whether a request changes nothing. What is not known to change nothing does,
// connections to containers, pods and Services among it.
func (r *request) onlyReads(method string) bool {
	asked := r.resource
	if asked == nil {
		return method == http.MethodGet || method == http.MethodHead
	}
	switch asked.verb {
	case "list", "watch":
		return asked.subresource == ""
	case "get":
		return asked.subresource == "" || isView(asked.group, asked.subresource)
	case "create":
		return asked.subresource == "" && asked.name == "" && isQuestion(asked.groupResource())
	}
	return false
}

// isView tells the subresources of which a GET shows something and does nothing.
func isView(group, subresource string) bool {
	switch subresource {
	case "status", "scale":
		return true
	case "log", "ephemeralcontainers", "resize":
		return group == ""
	}
	return false
}

// isQuestion tells the resources that are created to be answered, and leave nothing behind.
func isQuestion(r schema.GroupResource) bool {
	switch r.Group {
	case authenticationv1.GroupName:
		return r.Resource == "tokenreviews" || r.Resource == "selfsubjectreviews"
	case authorizationv1.GroupName:
		switch r.Resource {
		case "subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews",
			"selfsubjectrulesreviews":
			return true
		}
	}
	return false
}
