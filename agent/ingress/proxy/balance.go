package proxy

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// avoided is how long an endpoint that could not be reached is not used while there are others.
const avoided = 2 * time.Second

// backend is an IngressBackend. It never changes; the state of its endpoints does.
type backend struct {
	tenant    string
	protocol  protocol
	endpoints []*endpoint
}

// endpoint is one address of a backend. It is the same one in all snapshots that have it, so that
// what is known of it stays.
type endpoint struct {
	at       netip.AddrPort
	address  string
	inFlight atomic.Int64
	// failed is when it could not be reached last, in ns since 1970, 0 if it could.
	failed atomic.Int64
}

// newBackend takes over the endpoints that the one before has too; old may be nil.
func newBackend(told *joinapi.IngressBackend, old *backend) *backend {
	known := map[netip.AddrPort]*endpoint{}
	if old != nil && old.tenant == told.Tenant {
		for _, e := range old.endpoints {
			known[e.at] = e
		}
	}
	b := &backend{tenant: told.Tenant, protocol: protocolOf(told.Protocol)}
	for _, at := range told.Endpoints {
		e := known[at]
		if e == nil {
			e = &endpoint{at: at, address: at.String()}
			known[at] = e
		}
		b.endpoints = append(b.endpoints, e)
	}
	return b
}

// pick returns the less busy of two endpoints, of those that could be reached last if there are
// any, and never one of tried. It returns nil if there is none.
func (b *backend) pick(tried []netip.AddrPort, now time.Time) *endpoint {
	n := len(b.endpoints)
	if n == 0 {
		return nil
	}
	first := rand.IntN(n)
	one, other := b.endpoints[first], b.endpoints[first]
	if n > 1 {
		other = b.endpoints[(first+1+rand.IntN(n-1))%n]
	}
	oneGood, otherGood := one.usable(tried, now), other.usable(tried, now)
	switch {
	case oneGood && otherGood && other.inFlight.Load() < one.inFlight.Load():
		return other
	case oneGood:
		return one
	case otherGood:
		return other
	}
	return b.search(first, tried, now)
}

// search is pick when two of them were of no use.
func (b *backend) search(first int, tried []netip.AddrPort, now time.Time) *endpoint {
	var last *endpoint
	for i := range b.endpoints {
		e := b.endpoints[(first+i)%len(b.endpoints)]
		if e.usable(tried, now) {
			return e
		}
		if last == nil && !slices.Contains(tried, e.at) {
			last = e
		}
	}
	return last
}

func (e *endpoint) usable(tried []netip.AddrPort, now time.Time) bool {
	failed := e.failed.Load()
	// A clock that was set back must not make an endpoint useless for longer.
	since := now.UnixNano() - failed
	return (failed == 0 || since < 0 || since >= int64(avoided)) && !slices.Contains(tried, e.at)
}
