package route

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/a4s-io/a4s/agent/origin/codec"
)

var (
	// errHangs is why a request was given up.
	errHangs = errors.New("it does not answer")
	// errRefused is why a request was not sent.
	errRefused = errors.New("it has not answered lately")
)

// guard leads to a partition, remembers whether it answers, and bounds how long it is waited for.
// One that did not answer in time is probed at once: a request may be slow by itself, as by a
// webhook. If it does not answer that either, it is asked by probes only, until it does.
//
// agent/cluster/loadbalancer probes each server, whether it is asked or not, and takes connections
// away from it. A guard has one partition, whose servers that chooses, and probes only in doubt: it
// decides whether a request is sent at all.
type guard struct {
	ctx          context.Context // of the probes
	name         string
	rt           http.RoundTripper
	limit, every time.Duration
	log          *logrus.Entry

	mu       sync.Mutex
	failure  error // of the last request, nil for an answer
	probing  bool  // since a request was not answered in time
	refusing bool
	probes   sync.WaitGroup
}

// RoundTrip implements http.RoundTripper, for what may last as long as its client likes.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := g.rt.RoundTrip(r)
	if err != nil && errors.Is(context.Cause(r.Context()), context.Canceled) {
		return nil, err // it says nothing of the partition
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failure = err
	return resp, err
}

// CloseIdleConnections drops connections that may hang.
func (g *guard) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(g.rt) }

// failed is why the partition counts as one that is not reached, nil for one that is.
func (g *guard) failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failure == nil && g.refusing {
		return errRefused
	}
	return g.failure
}

// do sends a request that is no watch, and reads the whole answer.
func (g *guard) do(r *http.Request) (*http.Response, error) {
	if g.refuses() {
		if r.Body != nil {
			_ = r.Body.Close() // nothing was read that could be lost
		}
		return nil, fmt.Errorf("partition %s: %w; it is looked for every %s", g.name, errRefused, g.every)
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), g.limit, errHangs)
	defer cancel()
	resp, err := g.RoundTrip(r.WithContext(ctx))
	if err == nil {
		var body []byte
		if body, err = codec.ReadAll(resp.Body); err == nil {
			resp.Body = io.NopCloser(bytes.NewReader(body))
			return resp, nil
		}
	}
	if errors.Is(context.Cause(ctx), errHangs) {
		g.doubt()
		return nil, fmt.Errorf("partition %s: %w within %s", g.name, errHangs, g.limit)
	}
	return nil, fmt.Errorf("partition %s: %w", g.name, err)
}

func (g *guard) refuses() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refusing
}

// doubt begins to probe, unless that was begun.
func (g *guard) doubt() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.probing || g.ctx.Err() != nil {
		return
	}
	g.probing = true
	g.probes.Go(g.probe)
}

// probe looks for the partition until it answers.
func (g *guard) probe() {
	tick := time.NewTicker(g.every)
	defer tick.Stop()
	for first := true; !g.answers(); first = false {
		if g.ctx.Err() != nil {
			return
		}
		if first {
			g.set(true, true)
			g.log.Warnf("partition %s does not answer within %s; its requests fail at once until it does",
				g.name, g.limit)
		}
		select {
		case <-tick.C:
		case <-g.ctx.Done():
			return
		}
	}
	if g.refuses() {
		g.log.Infof("partition %s answers again", g.name)
	}
	g.set(false, false)
}

func (g *guard) set(probing, refusing bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing, g.refusing = probing, refusing
}

func (g *guard) answers() bool {
	ctx, cancel := context.WithTimeout(g.ctx, g.limit)
	defer cancel()
	// The way leads to the partition, whatever the host; its name need not be one of a host.
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://partition/livez", nil)
	if err != nil {
		return false
	}
	resp, err := g.RoundTrip(r)
	if err != nil {
		return false
	}
	_, err = codec.ReadAll(resp.Body)
	return err == nil && resp.StatusCode < http.StatusInternalServerError
}
