package edge

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/lru"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

const (
	// credentials is how many the queue knows the flow of.
	credentials = 8192
	// connections is how many the queue knows to be not new.
	connections = 8192
	// handshake is about what a new connection costs the server before its
	// first request is seen. A client with a wrong token has a new one for each
	// request: upstream ends connections of those who are not authenticated.
	handshake = time.Millisecond
)

const (
	// retryAfter is the seconds after which a client that was refused may come
	// back.
	retryAfter = 1
	// longestWait is how long a request waits for its turn; upstream's queues
	// have the same.
	longestWait = 15 * time.Second
)

var refusedTurns = func() *metrics.CounterVec {
	c := metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "a4s_turns_refused_total",
		Help:           "Requests that did not get a turn, by reason: full, late or gone.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
	legacyregistry.MustRegister(c)
	return c
}()

// queue gives requests turns. Whose a request is, is known only when it is
// authenticated, which is work itself; so it waits for its turn as what it
// was the last time, or as one of many unknown ones from an address.
type queue struct {
	turns *fairqueue.Queue
	flows *lru.Cache // by the credentials: the flow they were of
	seen  *lru.Cache // addresses of connections that had a request
}

func newQueue(turns *fairqueue.Queue) *queue {
	return &queue{turns: turns, flows: lru.New(credentials), seen: lru.New(connections)}
}

// credential is what a request is authenticated by.
type credential [sha256.Size]byte

func credentialOf(req *http.Request) (c credential, ok bool) {
	h := sha256.New()
	if req.TLS != nil && len(req.TLS.PeerCertificates) > 0 {
		h.Write(req.TLS.PeerCertificates[0].Raw)
		ok = true
	}
	for _, token := range req.Header.Values("Authorization") {
		h.Write([]byte(token))
		ok = true
	}
	h.Sum(c[:0])
	return c, ok
}

func tenantFlow(tenant string) string {
	if space.IsSystem(tenant) {
		return "" // does not wait
	}
	return "tenant:" + tenant
}

// addresses begins the names of flows of those who are not known.
const addresses = "address:"

// Stranger tells whether a flow is of requests of which only the address is
// known: probes of a load balancer, and first requests.
func Stranger(flow string) bool { return strings.HasPrefix(flow, addresses) }

func addressFlow(req *http.Request) string {
	host, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		host = req.RemoteAddr
	}
	return addresses + host
}

// fromItself tells the requests of the API server's own client, which connects
// to it on this machine under a name for itself.
func fromItself(req *http.Request) bool {
	if req.TLS == nil || req.TLS.ServerName != loopbackServerName {
		return false
	}
	from, err := netip.ParseAddrPort(req.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

// loopbackServerName is how the API server's own client calls the server in
// TLS (LoopbackClientServerNameOverride upstream).
const loopbackServerName = "apiserver-loopback-client"

// admission is the turn of a request, if it needs one.
type admission struct {
	q     *queue // nil for none
	by    credential
	known bool // there is a credential
	long  bool
	flow  string
	turn  *fairqueue.Turn // nil for those who do not wait
}

// enter waits for the turn of a request. A queue that is nil has no one wait.
func (q *queue) enter(req *http.Request, long bool) (*admission, error) {
	if q == nil || fromItself(req) {
		return &admission{}, nil
	}
	a := &admission{q: q, long: long, flow: addressFlow(req)}
	if a.by, a.known = credentialOf(req); a.known {
		if flow, ok := q.flows.Get(a.by); ok {
			a.flow = flow.(string)
		}
	}
	if err := a.acquire(req.Context()); err != nil {
		return a, err
	}
	if _, old := q.seen.Get(req.RemoteAddr); !old {
		q.seen.Add(req.RemoteAddr, nil)
		if a.turn != nil {
			a.turn.Charge(handshake)
		}
	}
	return a, nil
}

func (a *admission) acquire(ctx context.Context) (err error) {
	if a.flow == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	a.turn, err = a.q.turns.Acquire(ctx, a.flow, a.long)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fairqueue.ErrFull):
		refusedTurns.WithLabelValues("full").Inc()
		return apierrors.NewTooManyRequests("too many requests are waiting already: try again later", retryAfter)
	case errors.Is(err, context.DeadlineExceeded):
		refusedTurns.WithLabelValues("late").Inc()
	default:
		refusedTurns.WithLabelValues("gone").Inc()
	}
	return apierrors.NewTooManyRequests("the request waited too long for its turn: try again later", retryAfter)
}

// identified says who it is that was admitted. Who has no credential stays one
// of his address, so that nobody gets past the queue by saying nothing.
func (a *admission) identified(ctx context.Context, u user.Info) error {
	if !a.known || a.q == nil || u.GetName() == user.Anonymous {
		return nil
	}
	flow := tenantFlow(authn.TenantOf(u))
	if flow == a.flow {
		return nil
	}
	a.flow = flow
	a.q.flows.Add(a.by, flow)
	switch {
	case flow == "":
		a.leave()
	case a.turn == nil:
		return a.acquire(ctx)
	default:
		a.turn.Move(flow)
	}
	return nil
}

// besideOthers tells that it is one of a flood, beside somebody who asks for
// little. What lasts as long as its client likes is never.
func (a *admission) besideOthers() bool { return a.turn != nil && !a.long && a.turn.Beside() }

// leave ends the turn.
func (a *admission) leave() {
	if a.turn != nil {
		a.turn.Release()
		a.turn = nil
	}
}
