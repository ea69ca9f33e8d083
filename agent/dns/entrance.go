package dns

import (
	"context"

	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// ticketKey is the context key of a query's ticket.
type ticketKey struct{}

// ticket is the one slot that a query has, inside or outside. Only the goroutine of the query
// uses it.
type ticket struct {
	asker   asker
	held    *gate
	outside *gate
}

// goOutside changes the slot inside for one outside, so that who waits for resolvers holds
// nobody up who asks for names of the cluster. It reports whether there was one.
func (t *ticket) goOutside() bool {
	if t.held == t.outside {
		return true
	}
	if !t.outside.enter(t.asker) {
		return false
	}
	t.held.leave(t.asker)
	t.held = t.outside
	return true
}

// entrance is the CoreDNS plugin that every query passes first. It lets in as many as the
// bounds allow.
//
// The others are answered SERVFAIL. Libraries take it for a failure that passes: musl asks
// again at once, Go calls it temporary, glibc turns to its next server and says "try again".
// REFUSED is what a server says that never answers; musl ignores it and waits. Without any
// answer a pod would wait five seconds for what its neighbour did.
type entrance struct {
	bounds *bounds
	next   plugin.Handler
}

// Name implements plugin.Handler.
func (e *entrance) Name() string { return "a4s-entrance" }

// ServeDNS implements plugin.Handler.
func (e *entrance) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if _, in := ctx.Value(ticketKey{}).(*ticket); in { // the end of an alias
		return plugin.NextOrFailure(e.Name(), e.next, ctx, w, r)
	}
	b := e.bounds
	t := &ticket{asker: b.sources.asker(w.RemoteAddr()), held: b.inside, outside: b.outside}
	if !t.held.enter(t.asker) {
		return dns.RcodeServerFailure, nil
	}
	defer func() { t.held.leave(t.asker) }()
	return plugin.NextOrFailure(e.Name(), e.next, context.WithValue(ctx, ticketKey{}, t), w, r)
}

// leaves reports whether the query of ctx may be forwarded.
func leaves(ctx context.Context) bool {
	t, ok := ctx.Value(ticketKey{}).(*ticket)
	return ok && t.goOutside()
}
