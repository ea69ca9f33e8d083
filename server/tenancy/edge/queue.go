package edge

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/lru"

	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/fairness/ledger"
)

// credentials is how many the queue knows the flow of.
const credentials = 8192

const (
	// retryAfter is the seconds after which a client that was refused may come
	// back.
	retryAfter = 1
	// longestWait is how long a request waits for a seat; upstream's queues have
	// the same.
	longestWait = 15 * time.Second
)

var refusedRequests = func() *metrics.CounterVec {
	c := metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "a4s_queue_refused_requests_total",
		Help:           "Requests that did not get a seat, by reason: full, late or gone.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})
	legacyregistry.MustRegister(c)
	return c
}()

// queue gives seats to requests. Whose a request is, is known only when it is
// authenticated, which is work itself; so it waits in the flow that its credential
// had the last time, or in that of its address.
type queue struct {
	seats *fairqueue.Queue
	flows *lru.Cache // by the credentials: a flowOf, as it was the last time
	use   *ledger.Ledger
	// refused has refusals wait that cost much.
	refused *refusals
}

func newQueue(seats *fairqueue.Queue) *queue {
	return &queue{seats: seats, flows: lru.New(credentials), refused: newRefusals()}
}

// credential is what a request is authenticated by.
type credential [sha256.Size]byte

// credentialOf is that of a client, and of one whose request another server sent on: the
// certificate is that server's then, for all clients.
func credentialOf(req *http.Request, sentOn bool) (c credential, ok bool) {
	h := sha256.New()
	if !sentOn && req.TLS != nil && len(req.TLS.PeerCertificates) > 0 {
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

func addressFlow(req *http.Request) string {
	host, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		host = req.RemoteAddr
	}
	return "address:" + host
}

// admission is the seat of a request, if it needs one.
type admission struct {
	q     *queue // nil for none
	by    credential
	known bool // there is a credential
	said  bool // another server has authenticated the user
	flow  string
	seat  *fairqueue.Seat // nil for those who do not wait
	work  fairqueue.Work
	// counted is set when the request is known to the ledger.
	counted bool
}

// work is the kind of work that a request of a user is.
func (r *request) work() fairqueue.Work {
	switch {
	case r.resource == nil:
		return ledger.Documents
	case r.verb == "get":
		return ledger.Gets
	case r.verb == "list":
		return ledger.Lists
	case r.verb == "watch":
		return ledger.Watches
	case r.long:
		return ledger.Connections
	}
	return ledger.Writes
}

// enter is the step that waits for the seat of a request. Comes in: a request of somebody, and the
// tenant that its path names. Goes out: its turn, which has to be given back. A queue that is nil
// has no one wait.
func (q *queue) enter(req *http.Request, mark *Mark, named string, work fairqueue.Work) (*admission, error) {
	a := q.from(req, mark, named, work)
	return a, a.acquire(req.Context())
}

// refuse returns when a request that has no seat may be told that it is refused.
func (q *queue) refuse(req *http.Request, mark *Mark, named string) {
	if a := q.from(req, mark, named, 0); a.q != nil {
		q.refused.hold(req.Context(), a.flow, len(req.URL.RawQuery))
	}
}

// from tells in which flow a request waits. One that another server sent on waits among those of
// its user's tenant, or of its client's address, as if it had come by itself.
func (q *queue) from(req *http.Request, mark *Mark, named string, work fairqueue.Work) *admission {
	if q == nil || authn.FromItself(req) {
		return &admission{}
	}
	a := &admission{q: q, flow: addressFlow(req), work: work}
	if mark != nil && mark.Address != "" {
		a.flow = "address:" + mark.Address
	}
	a.by, a.known = credentialOf(req, mark != nil)
	if last, ok := q.flows.Get(a.by); ok && a.known {
		if flow, ok := last.(flowOf).at(named); ok {
			a.flow = flow
		}
	}
	if mark != nil && mark.Tenant != "" {
		a.said, a.flow = true, tenantFlow(mark.Tenant)
	}
	return a
}

func (a *admission) acquire(ctx context.Context) (err error) {
	if a.flow == "" {
		return nil
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	a.seat, err = a.q.seats.Acquire(ctx, a.flow)
	why := ledger.Gone
	switch {
	case err == nil:
		a.seat.Does(a.work)
		return nil
	case errors.Is(err, fairqueue.ErrFull):
		why = ledger.Full
	case errors.Is(err, context.DeadlineExceeded):
		why = ledger.Late
	}
	refusedRequests.WithLabelValues(why.String()).Inc()
	a.q.use.Refused(a.flow, a.work, why, time.Since(began))
	if why == ledger.Full {
		a.q.refused.hold(ctx, a.flow, 0)
		return apierrors.NewTooManyRequests("too many requests are waiting already: try again later", retryAfter)
	}
	return apierrors.NewTooManyRequests("the request waited too long: try again later", retryAfter)
}
