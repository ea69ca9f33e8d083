package controllers

import (
	"net/http"
	"strings"
	"sync"
)

// informerClient is the last part of the user agent of the client that feeds
// upstream's shared informers.
const informerClient = "shared-informers"

// running tells when upstream has built all controllers and begins to run
// them: it starts the shared informers right between the two.
type running struct {
	once sync.Once
	ch   chan struct{}
}

func newRunning() *running { return &running{ch: make(chan struct{})} }

// Wrap watches the requests that go through rt.
func (r *running) Wrap(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		// Health is asked for with the same client, before anything is built.
		if strings.HasPrefix(req.URL.Path, "/api") && strings.HasSuffix(req.UserAgent(), "/"+informerClient) {
			r.tell()
		}
		return rt.RoundTrip(req)
	})
}

// tell says that the controllers run.
func (r *running) tell() { r.once.Do(func() { close(r.ch) }) }

// Done is closed once the controllers run.
func (r *running) Done() <-chan struct{} { return r.ch }

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
