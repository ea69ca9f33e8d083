package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// errSlow is the end of what took longer than its route allows.
var errSlow = errors.New("the backend does not answer in time")

// deadline is until when the header of an answer must be there. Its zero value is none.
type deadline struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// newDeadline returns a context that ends after a time, and then calls late, unless the deadline is met; 0 is no
// deadline.
func newDeadline(ctx context.Context, after time.Duration, late func()) (context.Context, deadline) {
	if after <= 0 {
		return ctx, deadline{}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(after, func() {
		cancel(errSlow)
		late()
	})
	return ctx, deadline{timer, cancel}
}

// met ends the deadline, once. It returns what came, or errSlow if that came too late. The context goes on: the
// body of an answer comes by it.
func (d deadline) met(resp *http.Response, err error) (*http.Response, error) {
	if d.timer == nil || d.timer.Stop() {
		return resp, err
	}
	if err == nil {
		resp.Body.Close() //nolint:errcheck // nobody reads it
	}
	return nil, errSlow
}

// end ends the context.
func (d deadline) end() {
	if d.timer != nil {
		d.timer.Stop()
		d.cancel(nil)
	}
}

// attempt is that of one endpoint, with a deadline of its own; nil if it has none.
type attempt struct {
	deadline
	// connected is whether something of the request may have been sent.
	connected atomic.Bool
}

// attempt returns the context for one. Nothing ends it before the request ends, if it is not late.
func (x *exchange) attempt(ctx context.Context) (context.Context, *attempt) {
	if x.route.backendTimeout <= 0 {
		return ctx, nil
	}
	a := &attempt{}
	// The next one needs the body, if there is one. Of these two at least the one that comes last stops it.
	ctx, a.deadline = newDeadline(ctx, x.route.backendTimeout, func() {
		if a.connected.Load() {
			x.upload.stop()
		}
	})
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		a.connected.Store(true)
		if ctx.Err() != nil {
			x.upload.stop()
		}
	}}), a
}

// met is that of the deadline; what is late and was not sent is as if there was no connection.
func (a *attempt) met(resp *http.Response, err error) (*http.Response, error) {
	if a == nil {
		return resp, err
	}
	resp, err = a.deadline.met(resp, err)
	if errors.Is(err, errSlow) && !a.connected.Load() {
		err = dialError{err}
	}
	return resp, err
}

// upload is the body of a request. Who reads it, as transports do and net/http does before it answers, waits as
// long as the client does not send.
type upload struct {
	mu sync.Mutex
	// of is nil if there is no body, and when the request has ended: it must not be used then.
	of http.ResponseWriter
}

func (u *upload) begin(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		u.of = w
	}
}

// stop has whoever reads it fail.
func (u *upload) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of != nil {
		// It fails if there is no connection any more.
		http.NewResponseController(u.of).SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // see above
	}
}

func (u *upload) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.of = nil
}
