package edge

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/failure"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// authenticate is the step that says whose the request is. Comes in: what it says. Goes out:
// its user, their tenant, and the space that it is addressed to; ok is false if it is nobody's. Who
// is known, and whose tenant is not clear, learns why, as does everybody whose provider does not answer: clients
// throw away a login that is refused. It may wait for a tenant's provider, without the seat.
func (e *Edge) authenticate(req *http.Request, r *request, turn *admission) (_ *http.Request, ok bool, _ error) {
	seated := turn.seat != nil && e.opts.Issuers != nil && e.opts.Issuers.Any()
	if seated {
		req = req.WithContext(fairqueue.With(req.Context(), turn.seat))
	}
	if r.mark != nil {
		req = authn.FromPartition(req)
	}
	req, answer, ok, err := authn.Early(e.auth, req, r.inPath)
	if seated {
		req = req.WithContext(fairqueue.With(req.Context(), nil)) // it may be given back before the request ends
	}
	if who, why := authn.Refused(err); who != nil {
		r.user = who // for the audit log
		return req, false, apierrors.NewUnauthorized(why.Error())
	}
	if errors.Is(err, authn.ErrAway) {
		return req, false, failure.Again(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
			retryAfter, authn.ErrAway.Error()+" now: try again later")
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
