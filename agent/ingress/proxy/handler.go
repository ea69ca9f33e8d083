package proxy

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"
)

// proxy is the handler of all requests.
type proxy struct {
	Options
	tables      *tables
	connections *connections
	inFlight    atomic.Int64
	reverse     *httputil.ReverseProxy
}

func newProxy(o Options) *proxy {
	p := &proxy{Options: o, connections: newConnections(o.Limits)}
	p.tables = newTables(o.Log, func(name string) *tenant { return &tenant{name: name, limits: o.Limits} })
	p.reverse = &httputil.ReverseProxy{
		Rewrite:        prepare,
		Transport:      p,
		ModifyResponse: filterAnswer,
		ErrorHandler:   failed,
		ErrorLog:       quiet(o.Log),
		BufferPool:     newBuffers(),
	}
	return p
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := &answer{ResponseWriter: w, last: p.connections.scarce(), body: newRequestBody(r)}
	defer answer.end()
	if r.Method == http.MethodOptions && r.URL.Path == "*" { // asks for nothing of any host
		answer.WriteHeader(http.StatusOK)
		return
	}
	if status, problem := malformed(r); status != 0 {
		http.Error(answer, problem, status)
		return
	}
	s := p.tables.shown.Load()
	h := s.host(hostName(r.Host))
	switch {
	case r.TLS != nil && s.passes(r.Host) != nil: // its own connections are not opened here
		http.Error(answer, "connections for this host are passed on: one for another host is no way to it",
			http.StatusMisdirectedRequest)
	case h == nil:
		http.Error(answer, "no Ingress has this host", http.StatusNotFound)
	case misdirected(s, r, h):
		http.Error(answer, "this connection is for another host", http.StatusMisdirectedRequest)
	default:
		defer func() { h.tenant.counts.add(answer.status) }()
		p.serve(answer, r, s, h)
	}
}

// malformed refuses what a proxy cannot pass on: tunnels, and targets that are no path.
func malformed(r *http.Request) (status int, problem string) {
	switch {
	case r.Method == http.MethodConnect:
		return http.StatusMethodNotAllowed, "CONNECT is not possible here"
	case r.URL.Opaque != "" || r.URL.Path != "" && !strings.HasPrefix(r.URL.Path, "/"):
		return http.StatusBadRequest, "the request has no path"
	}
	return 0, ""
}

func (p *proxy) serve(w *answer, r *http.Request, s *snapshot, h *host) {
	// It counts before a route is looked for, which is work for the tenant too.
	if !p.enter(h.tenant) {
		unavailable(w, "too many requests are in flight")
		return
	}
	defer p.leave(h.tenant)
	to, err := h.find(r)
	switch {
	case errors.Is(err, errNoRoute):
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if to.redirect != nil {
		to.response.change(w.Header())
		to.redirect.answer(w, r)
		return
	}
	chosen := to.choose()
	if chosen == nil {
		http.Error(w, "no backend of the route can be reached", http.StatusInternalServerError)
		return
	}
	b := s.backend(chosen.backend, h.tenant)
	if b == nil || len(b.endpoints) == 0 {
		unavailable(w, "the backend has no endpoint")
		return
	}
	x := &exchange{tenant: h.tenant, route: to, part: chosen, backend: b}
	w.of = x
	ctx := x.begin(w, r)
	defer x.end()
	forwarded := r.WithContext(ctx)
	if w.body != nil {
		forwarded.Body = w.body
	}
	p.reverse.ServeHTTP(w, forwarded)
}

// enter counts a request, unless there are too many. The tenant's own bound comes first: what is
// refused by it counts for nobody else. It is lower while little is left of all, for who comes late.
func (p *proxy) enter(t *tenant) bool {
	most := int64(p.Limits.PerTenant)
	if p.inFlight.Load() > int64(p.Limits.Requests)*8/10 {
		most = max(1, most/8)
	}
	if t.inFlight.Add(1) > most {
		t.inFlight.Add(-1)
		return false
	}
	if p.inFlight.Add(1) > int64(p.Limits.Requests) {
		p.leave(t)
		return false
	}
	return true
}

func (p *proxy) leave(t *tenant) {
	p.inFlight.Add(-1)
	t.inFlight.Add(-1)
}

func unavailable(w http.ResponseWriter, problem string) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, problem, http.StatusServiceUnavailable)
}

// answer is a ResponseWriter that knows the status, and ends connections while they are scarce, or when what comes
// next by them is a body that nobody read.
type answer struct {
	http.ResponseWriter
	status int
	// last is whether the connection should not be used again.
	last bool
	// body is nil if nobody waits for it.
	body *requestBody
	// of is nil if the answer is not that of a backend.
	of *exchange
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK && a.status == 0 {
		a.status = status
		if a.last || a.body.unread() {
			a.Header().Set("Connection", "close")
		}
	}
	if status < http.StatusOK && a.of != nil { // what comes before the answer passes no filter
		a.of.dropEarly(a.Header())
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

// Hijack implements http.Hijacker. An upgraded connection has no other status.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err == nil {
		a.status = http.StatusSwitchingProtocols
	}
	return conn, buffered, err
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
