package edge

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// authenticate is the step that says whose the request is. Comes in: what it says. Goes out:
// its user, their tenant, and the space that it is addressed to; ok is false if it is nobody's. Who
// is known, and whose tenant is not clear, learns why.
func (e *Edge) authenticate(req *http.Request, r *request) (_ *http.Request, ok bool, _ error) {
	req, answer, ok, err := authn.Early(e.auth, req, r.inPath)
	if who, why := authn.Refused(err); who != nil {
		r.user = who // for the audit log
		return req, false, apierrors.NewUnauthorized(why.Error())
	}
	if err != nil || !ok {
		return req, false, nil
	}
	r.members = authn.Members(req.Context())
	r.identify(answer.User, req.Header)
	return req, true, nil
}

// identify resolves the space by the user.
func (r *request) identify(u user.Info, header http.Header) {
	r.user, r.userTenant = u, space.TenantOf(u)
	if r.undecided() {
		return // it is refused
	}
	r.ofTenant = r.userTenant
	if space.IsSystem(r.userTenant) {
		// Whether the user may impersonate is for the authorizer to say.
		if t := authn.ImpersonatedTenant(header); t != "" {
			r.ofTenant = t
		}
	}
	r.space = resolve(r.inPath, r.ofTenant, "")
}

// resolve is the pseudo-code of the seed: which space a request addresses.
// The empty answer is the composite view of the whole cluster.
func resolve(inPath, ofUser, defaultTenant string) string {
	if ofUser == "" && defaultTenant != "" {
		ofUser = defaultTenant
	}
	if inPath != "" {
		return inPath
	}
	if !space.IsSystem(ofUser) {
		return ofUser
	}
	return ""
}
