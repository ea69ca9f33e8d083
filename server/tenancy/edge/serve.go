package edge

import (
	"net/http"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/limits"
)

// The way of a request through the edge, as the first drawing in docs/developing/architecture.md has it:
// a list of steps. Each is one function in one file, which says what comes in and what goes out.
// What a step has found out is in the request from then on, for later steps to read. The way
// ends early where a step answers, sends the request on, or returns why it is refused.

// serve has a request answered, or returns why it is refused before it reaches the API server.
func (e *Edge) serve(w http.ResponseWriter, req *http.Request, next *chain, r *request) error {
	if err := r.boundQuery(req); err != nil {
		e.queue.refuse(req, r.mark, r.inPath)
		return err
	}
	turn, err := e.queue.enter(req, r.mark, r.inPath, r.work())
	if err != nil {
		return err
	}
	defer turn.leave()
	req, ok, err := e.authenticate(req, r, turn)
	if !ok && r.user == nil && e.others.passOn(w, req, r, turn) {
		return nil
	}
	if err != nil {
		return err
	}
	if !ok {
		// The chain behind says 401, and audits it.
		next.ServeHTTP(w, withPath(req, r.path))
		return nil
	}
	if err := turn.identified(req.Context(), r.user, r.members); err != nil {
		return err
	}
	if err := r.chosen(); err != nil {
		return err
	}
	e.queue.charge(r.worksFor(e.opts.Gated))
	if sent, err := e.others.elsewhere(w, req, r, turn); sent || err != nil {
		return err
	}
	if w, req, err = e.part(w, req, r); err != nil {
		return err
	}
	if space.IsSystem(r.userTenant) {
		return e.serveForSystem(w, req, next, r)
	}
	if err := r.boundSelectors(req); err != nil {
		return err
	}
	w, req = turn.seated(w, req)
	req, release, err := e.track(req, r)
	if err != nil {
		return err
	}
	defer release()
	within := func(w http.ResponseWriter) error {
		if err := e.cordon(req, r); err != nil {
			return err
		}
		if err := e.openSpace(req, r); err != nil {
			return err
		}
		return e.serveSpace(w, req, next, r)
	}
	if e.opts.Limits == nil {
		return within(w)
	}
	limited := limits.Request{Tenant: r.userTenant, Verb: r.verb, LongRunning: r.long}
	return e.opts.Limits.Serve(req.Context(), w, limited, within)
}

// serveSpace is the rest of the way for a request that is addressed to one space, natively.
func (e *Edge) serveSpace(w http.ResponseWriter, req *http.Request, next http.Handler, asked *request) error {
	e.findKind(asked)
	p := e.Projector(asked.space)
	req, err := e.compose(req, asked)
	if err != nil {
		return err
	}
	r := asked.resource
	if r == nil {
		return e.serveNonResource(w, req, next, p, asked)
	}
	if r.streams || !r.known {
		// It waits for a pod, a node or an aggregated API server, which may ask this one.
		fairqueue.Of(req.Context()).BeginWait()
	}
	if r.streams {
		return handOn(w, req, next, p, r, nil)
	}
	if err := composeQuery(req, p, r); err != nil {
		return err
	}
	if r.verb == "watch" {
		if e.opts.Load != nil && asked.space != space.System {
			next = countsEvents(next, e.opts.Load, asked.space)
		}
		next = inTurns(next, fairqueue.Of(req.Context()))
	}
	return handOn(w, req, next, p, r, composeBody(req, p, r))
}
