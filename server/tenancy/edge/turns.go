package edge

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// seated is the step that gives a request its seat. Comes in: a request and its turn. Goes out:
// the request with the seat in its context, which others may have while it waits for its client:
// for the body, or for what is written to be read.
func (a *admission) seated(w http.ResponseWriter, req *http.Request) (http.ResponseWriter, *http.Request) {
	if a.seat == nil {
		return w, req
	}
	req = req.WithContext(fairqueue.With(req.Context(), a.seat))
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = received{req.Body, a.seat}
	}
	return responsewriter.WrapForHTTP1Or2(&sending{ResponseWriter: w, seat: a.seat}), req
}

// sentOn is for a request that another server serves, which bounds how many there are.
func (a *admission) sentOn() {
	a.seat.Endless()
	a.seat.Yield()
}

// sending is the answer to a request.
type sending struct {
	http.ResponseWriter
	seat *fairqueue.Seat
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (s *sending) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Write implements http.ResponseWriter.
func (s *sending) Write(b []byte) (int, error) {
	s.seat.BeginWait()
	defer s.seat.EndWait()
	return s.ResponseWriter.Write(b)
}

// Flush implements http.Flusher.
func (s *sending) Flush() {
	s.seat.BeginWait()
	defer s.seat.EndWait()
	if f, ok := s.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// inTurns has the events of a watch computed one at a time, each in a seat. Between them
// it has none. Upstream encodes one event ahead of its turn, and closes a watch that does
// not keep up.
func inTurns(next http.Handler, seat *fairqueue.Seat) http.Handler {
	if seat == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(&turns{ResponseWriter: w, seat: seat}), req)
	})
}

// turns is the answer to a watch.
type turns struct {
	http.ResponseWriter
	seat   *fairqueue.Seat
	events bool
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (t *turns) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (t *turns) WriteHeader(code int) {
	t.ResponseWriter.WriteHeader(code)
	if code == http.StatusOK {
		t.events = true
		t.seat.Endless()
		t.seat.Yield()
	}
}

// Write implements http.ResponseWriter.
func (t *turns) Write(b []byte) (int, error) {
	if t.events {
		t.seat.Need()
		defer t.seat.Yield()
	}
	return t.ResponseWriter.Write(b)
}
