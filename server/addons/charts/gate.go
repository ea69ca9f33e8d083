package charts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/a4s-io/a4s/server/addons/charts/confined"
)

// gateNetwork is the network by which a confined process asks for the API of its space.
const gateNetwork = "api"

// maxHeader bounds the header of a request.
const maxHeader = 64 << 10

// gate is the API of one space for a confined process: without credentials, with the rights of the administrator of
// that space.
type gate struct {
	server http.Server
	conns  *handed
}

// newGate serves the space of an access until it is closed.
func newGate(a *access) (*gate, error) {
	base, err := url.Parse(a.config.Host)
	if err != nil {
		return nil, fmt.Errorf("the address of the API: %w", err)
	}
	quiet := log.New(io.Discard, "", 0) // what a tenant's chart does wrong is theirs to know
	proxy := &httputil.ReverseProxy{Transport: a.transport, FlushInterval: -1, ErrorLog: quiet,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			for name := range r.Out.Header {
				if !passed.Has(name) {
					delete(r.Out.Header, name)
				}
			}
		}}
	g := &gate{conns: newHanded(), server: http.Server{MaxHeaderBytes: maxHeader, ReadHeaderTimeout: requestTimeout,
		ErrorLog: quiet}}
	g.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := mayAsk(r.Method, r.URL); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	})
	go g.server.Serve(g.conns) //nolint:errcheck // it ends with close
	return g, nil
}

// passed are the headers of a request that are passed on: none that says who asks.
var passed = sets.New("Accept", "Accept-Encoding", "Content-Type", "Content-Length", "User-Agent")

// methods are those of objects.
var methods = sets.New(http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete)

// errPath is one that no client of objects asks for.
var errPath = errors.New("not a path of the API")

// mayAsk reports what is wrong with a request: its address must be below the space whatever reads it.
func mayAsk(method string, u *url.URL) error {
	if !methods.Has(method) || u.RawPath != "" || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") ||
		!slices.Contains([]string{"api", "apis", "openapi", "version"}, strings.Split(u.Path+"/", "/")[1]) {
		return fmt.Errorf("%w: %q", errPath, u.Path)
	}
	return nil
}

// dial makes a connection to the gate.
func (g *gate) dial() (net.Conn, error) {
	near, far := net.Pipe()
	if err := g.conns.hand(far); err != nil {
		return nil, fmt.Errorf("making a connection to the API: %w", err)
	}
	return near, nil
}

// close ends all its connections.
func (g *gate) close() { g.server.Close() } //nolint:errcheck // nobody else has its listener

// dialer connects a confined process to its space, and to what its tenant may name.
func (g *gate) dialer(outside confined.Dial) confined.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		switch network {
		case gateNetwork:
			return g.dial()
		case "tcp":
			return outside(ctx, network, address)
		}
		return nil, net.UnknownNetworkError(network)
	}
}

// handed is a listener whose connections are handed to it.
type handed struct {
	conns chan net.Conn
	once  sync.Once
	ended chan struct{}
}

func newHanded() *handed { return &handed{conns: make(chan net.Conn), ended: make(chan struct{})} }

// hand waits until the connection is taken.
func (h *handed) hand(conn net.Conn) error {
	select {
	case h.conns <- conn:
		return nil
	case <-h.ended:
		return net.ErrClosed
	}
}

// Accept implements net.Listener.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handed) Close() error {
	h.once.Do(func() { close(h.ended) })
	return nil
}

// Addr implements net.Listener.
func (h *handed) Addr() net.Addr { return &net.UnixAddr{Name: gateNetwork, Net: "unix"} }
