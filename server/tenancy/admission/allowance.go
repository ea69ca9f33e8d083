package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

const (
	// workloadBudget is how long the hooks of a tenant have in all to answer
	// about one request of a controller, which serves all tenants.
	workloadBudget = 2 * time.Second
	// maxAnswer bounds the answer of a hook, of which upstream reads all. The
	// patch of the largest object has room in it.
	maxAnswer = 16 << 20
)

var (
	errBudget = errors.New("the admission webhooks of the tenant have used up the time that they have for a " +
		"request of a controller")
	errLong = fmt.Errorf("the answer of the webhook is longer than %d bytes", maxAnswer)
)

// allowance is what the hooks of a tenant may take of one request, by all
// plugins together.
type allowance struct {
	computing computing

	mu       sync.Mutex
	standing *standing // of the tenant, nil for a request of its user
	end      time.Time // zero until a hook is asked
}

type allowanceKey struct{}

// Allow gives each request that can create or update something the allowance
// that its hooks use. About the rest of what controllers do no hook is asked.
func Allow(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.Method {
		case http.MethodPost, http.MethodPut, http.MethodPatch:
			req = req.WithContext(withAllowance(req.Context()))
		}
		h.ServeHTTP(w, req)
	})
}

func withAllowance(ctx context.Context) context.Context {
	return context.WithValue(ctx, allowanceKey{}, &allowance{})
}

// allowanceOf is that of a request; one of its own where a request has none.
func allowanceOf(ctx context.Context) (context.Context, *allowance) {
	if a, ok := ctx.Value(allowanceKey{}).(*allowance); ok {
		return ctx, a
	}
	ctx = withAllowance(ctx)
	return allowanceOf(ctx)
}

// begin starts the time of the request at its first question.
func (a *allowance) begin(s *standing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.standing = s
	if a.end.IsZero() {
		a.end = time.Now().Add(workloadBudget)
	}
}

func (a *allowance) left() (*standing, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.standing, time.Until(a.end)
}

// waits says that a hook is waited for, until the returned function is called: nothing is
// computed, and the seat of the request is for others meanwhile.
func (a *allowance) waits(ctx context.Context) (answered func()) {
	seat, computes := fairqueue.Of(ctx), a.computing.wait()
	seat.BeginWait()
	return sync.OnceFunc(func() {
		seat.EndWait()
		seat.Need()
		computes()
	})
}

// bounded has the hooks of a tenant called within the allowance of the request,
// and never again because they ask for it: the time until then would be the
// caller's.
func bounded(wrap webhook.AuthenticationInfoResolverWrapper) webhook.AuthenticationInfoResolverWrapper {
	return wrapped(wrap, func(rt http.RoundTripper) http.RoundTripper { return trip{rt} })
}

// wrapped has all calls of hooks go through another transport.
func wrapped(
	wrap webhook.AuthenticationInfoResolverWrapper, transport func(http.RoundTripper) http.RoundTripper,
) webhook.AuthenticationInfoResolverWrapper {
	return func(r webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		inner := wrap(r)
		with := func(cfg *rest.Config, err error) (*rest.Config, error) {
			if err != nil {
				return nil, err
			}
			cfg = rest.CopyConfig(cfg)
			cfg.Wrap(transport)
			return cfg, nil
		}
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: func(host string) (*rest.Config, error) { return with(inner.ClientConfigFor(host)) },
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				return with(inner.ClientConfigForService(name, namespace, port))
			},
		}
	}
}

// trip is one call of a hook. It fails as a call does that is not answered, so
// that the failurePolicy of the hook applies, which it would not if the request
// itself had ended.
type trip struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t trip) RoundTrip(req *http.Request) (*http.Response, error) {
	a, _ := req.Context().Value(allowanceKey{}).(*allowance)
	if a == nil {
		return t.call(req, func() {})
	}
	answered := a.waits(req.Context())
	s, left := a.left()
	if s == nil {
		return t.call(req, answered)
	}
	if err := s.mayAsk(time.Now()); err != nil {
		answered()
		return nil, err
	}
	if left <= 0 {
		answered()
		s.failed(time.Now())
		return nil, errBudget
	}
	ctx, cancel := context.WithTimeoutCause(req.Context(), left, errBudget)
	return s.judge(t.call(req.WithContext(ctx), func() {
		cancel()
		answered()
	}))
}

// conversion is one call of a conversion webhook.
type conversion struct {
	inner    http.RoundTripper
	standing *standing
}

// RoundTrip implements http.RoundTripper.
func (c conversion) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := c.standing.mayAsk(time.Now()); err != nil {
		return nil, err
	}
	return c.standing.judge(c.inner.RoundTrip(req))
}

// judge notes how a call went. A hook that says no has answered; one that is
// broken has not.
func (s *standing) judge(resp *http.Response, err error) (*http.Response, error) {
	if err != nil || resp.StatusCode >= http.StatusInternalServerError ||
		resp.StatusCode == http.StatusTooManyRequests {
		s.failed(time.Now())
		return resp, err
	}
	resp.Body = &judged{ReadCloser: resp.Body, standing: s}
	return resp, nil
}

// call does it, and done once the answer is read or there is none.
func (t trip) call(req *http.Request, done func()) (*http.Response, error) {
	resp, err := t.inner.RoundTrip(req)
	if err != nil {
		done()
		return nil, err
	}
	resp.Header.Del("Retry-After")
	resp.Body = &answer{ReadCloser: resp.Body, left: maxAnswer, done: done}
	return resp, nil
}

// answer is the body of a hook's answer.
type answer struct {
	io.ReadCloser
	left int
	done func()
}

// Read implements io.Reader.
func (b *answer) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errLong
	}
	return n, err
}

// Close implements io.Closer.
func (b *answer) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// judged tells the standing of the tenant whether an answer came to its end.
type judged struct {
	io.ReadCloser
	standing *standing
	once     sync.Once
}

// Read implements io.Reader.
func (b *judged) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.once.Do(b.standing.answered)
	}
	return n, err
}

// Close implements io.Closer.
func (b *judged) Close() error {
	b.once.Do(func() { b.standing.failed(time.Now()) })
	return b.ReadCloser.Close()
}
