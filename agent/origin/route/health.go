package route

import (
	"context"
	"errors"
	"net/http"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/a4s-io/a4s/internal/health"
)

// way leads to a partition, and remembers whether the last request was answered.
type way struct {
	rt http.RoundTripper

	mu      sync.Mutex
	failure error // of the last request, nil for an answer
}

// RoundTrip implements http.RoundTripper.
func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.rt.RoundTrip(r)
	if err != nil && errors.Is(context.Cause(r.Context()), context.Canceled) {
		return nil, err // it says nothing of the partition
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failure = err
	return resp, err
}

// CloseIdleConnections drops connections that may hang.
func (w *way) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(w.rt) }

func (w *way) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// Check tells which tenant partitions this node does not reach. It asks nobody: the node has
// watches of each, which are begun again as long as they fail.
func (r *Router) Check(_ context.Context, h *health.Registry) {
	var names []string
	if t := r.table.Load(); t != nil && !t.alone {
		for _, p := range t.all {
			err := p.way.failed()
			if err == nil && p.refuses() {
				err = errRefused
			}
			if err != nil {
				names = append(names, p.Name)
				h.Set(health.PartitionUnreachable, p.Name, err.Error())
			}
		}
	}
	h.Keep(health.PartitionUnreachable, names)
}
