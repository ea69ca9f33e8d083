package proxied

import (
	"context"
	"sync/atomic"
)

// Request is a request to a proxied server.
type Request struct {
	// Root is where the proxied server begins in the path of the client, with
	// the prefix and the tenant in it, without a slash at the end.
	Root string

	answered atomic.Bool
}

type requestKey struct{}

// With returns a context of a request to what the client calls root.
func With(ctx context.Context, root string) context.Context {
	return context.WithValue(ctx, requestKey{}, &Request{Root: root})
}

// From is the request that ctx is of, nil if it is not known how the client asked.
func From(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// Answer takes note that the proxied server has answered.
func (r *Request) Answer() {
	if r != nil {
		r.answered.Store(true)
	}
}

// Answered reports whether the answer is that of the proxied server. A request that
// is nil has none.
func (r *Request) Answered() bool { return r != nil && r.answered.Load() }
