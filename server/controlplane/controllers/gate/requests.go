package gate

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/space"
)

// Clients are those of a builder, whose requests the gate counts.
func (g *Gate) Clients(b Builder) Builder {
	return &clients{b, g}
}

type clients struct {
	Builder
	gate *Gate
}

// Config implements Builder.
func (c *clients) Config(name string) (*restclient.Config, error) {
	config, err := c.Builder.Config(name)
	if err != nil {
		return nil, err
	}
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &transport{rt, &c.gate.requests} })
	return config, nil
}

// Client implements Builder.
func (c *clients) Client(name string) (kubernetes.Interface, error) {
	config, err := c.Config(name)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// transport has the requests about a tenant's objects wait for each other.
type transport struct {
	http.RoundTripper
	requests *requests
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if name, _ := space.SplitNamespace(namespaceOf(req.URL.Path)); !space.IsSystem(name) {
		if err := t.requests.begin(req.Context(), name); err != nil {
			return nil, err
		}
		defer t.requests.end(name)
	}
	return t.RoundTripper.RoundTrip(req)
}

// WrappedRoundTripper implements k8s.io/apimachinery/pkg/util/net.RoundTripperWrapper.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// atATime is how many requests about the objects of one tenant a controller makes at a time.
// A connection carries 250 of all tenants, and the server begins few of one tenant at once.
const atATime = 16

// long is how long a request waits behind those that came later.
const long = 2 * time.Second

// requests are those of a controller that have no answer, by tenant.
type requests struct {
	mu sync.Mutex
	of map[string]*unanswered
}

// unanswered are the requests about one tenant's objects.
type unanswered struct {
	sent int
	// waiting are those that are not sent. The last is sent first: a sync that makes 500
	// pods waits for all of them, and another one for its first. So that each is sent, the
	// first is if it has waited for long.
	waiting []waiter
}

type waiter struct {
	turn  chan struct{}
	since time.Time
}

// has reports whether there are any about a tenant's objects.
func (r *requests) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[name] != nil
}

// begin returns when a request can be sent, or with the error of the context.
func (r *requests) begin(ctx context.Context, name string) error {
	r.mu.Lock()
	of := r.of[name]
	if of == nil {
		if r.of == nil {
			r.of = map[string]*unanswered{}
		}
		of = &unanswered{}
		r.of[name] = of
	}
	if of.sent < atATime {
		of.sent++
		r.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	of.waiting = append(of.waiting, waiter{turn, time.Now()})
	r.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	i := slices.IndexFunc(of.waiting, func(w waiter) bool { return w.turn == turn })
	if i >= 0 {
		of.waiting = slices.Delete(of.waiting, i, i+1)
	}
	r.mu.Unlock()
	if i < 0 {
		r.end(name) // it had its turn meanwhile
	}
	return ctx.Err()
}

// end is called when a request that has begun is answered.
func (r *requests) end(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of[name]
	if next := len(of.waiting) - 1; next >= 0 {
		if time.Since(of.waiting[0].since) > long {
			next = 0
		}
		close(of.waiting[next].turn)
		of.waiting = slices.Delete(of.waiting, next, next+1)
		return
	}
	if of.sent--; of.sent == 0 {
		delete(r.of, name)
	}
}

// namespaceOf is the namespace in a path of /api/v1/namespaces/NAME/RESOURCE or
// /apis/GROUP/VERSION/namespaces/NAME/RESOURCE, as typed clients make them. It is "" for
// events, which a controller sends one after the other, those of all tenants.
func namespaceOf(path string) string {
	_, rest, ok := strings.Cut(path, "/namespaces/")
	if !ok {
		return ""
	}
	name, resource, _ := strings.Cut(rest, "/")
	if resource, _, _ = strings.Cut(resource, "/"); resource == "events" {
		return ""
	}
	return name
}
