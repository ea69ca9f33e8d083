package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// attempts is how many endpoints are tried for one request.
const attempts = 3

// clientGone is the status that is counted when nobody waits for an answer any more.
const clientGone = 499

// exchange is one request on its way.
type exchange struct {
	tenant *tenant
	route  *route
	part   *part
	// backend is that of the part.
	backend *backend
	// limit is that of the route for all attempts.
	limit  deadline
	upload upload
	// endpoint has the request, nil before there is one.
	endpoint *endpoint
}

type exchangeKey struct{}

func (x *exchange) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// begin returns the context of the request on its way.
func (x *exchange) begin(w http.ResponseWriter, r *http.Request) context.Context {
	x.upload.begin(w, r)
	ctx, limit := newDeadline(r.Context(), x.route.timeout, x.upload.stop)
	x.limit = limit
	return x.context(ctx)
}

func (x *exchange) end() {
	x.release()
	x.limit.end()
	x.upload.end()
}

// hold counts the request for an endpoint until release, or until another one has it.
func (x *exchange) hold(e *endpoint) {
	x.release()
	x.endpoint = e
	e.inFlight.Add(1)
}

func (x *exchange) release() {
	if x.endpoint != nil {
		x.endpoint.inFlight.Add(-1)
		x.endpoint = nil
	}
}

// prepare makes the request for the backend. Headers of one connection only are removed by now, so
// a client cannot have those removed that are set here. What filters do is done first: it can undo nothing.
func prepare(r *httputil.ProxyRequest) {
	in, out := r.In, r.Out
	x := exchangeOf(in.Context())
	x.route.request.change(out.Header)
	x.part.request.change(out.Header)
	setPath(out.URL, sentPath(out.URL))
	resolveDots(out.URL)
	x.route.rewrite.change(out)
	out.URL.RawQuery = in.URL.RawQuery // ReverseProxy removes what it cannot parse
	out.URL.User = nil                 // it would become a header
	x.handTrailersOn(r)
	for name := range out.Header {
		if saysWhoAsks(name) {
			delete(out.Header, name)
		}
	}
	client, _, err := net.SplitHostPort(in.RemoteAddr)
	if err != nil {
		client = in.RemoteAddr
	}
	out.Header.Set("X-Forwarded-For", client)
	out.Header.Set("X-Real-Ip", client)
	out.Header.Set("X-Forwarded-Host", in.Host)
	out.Header.Set("X-Forwarded-Proto", schemeOf(in))
	if local, ok := in.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		out.Header.Set("X-Forwarded-Port", strconv.Itoa(local.Port))
	}
	// After an upgrade to HTTP/2 requests would pass unseen, with any path and any header.
	upgrade := strings.ToLower(strings.Join(out.Header["Upgrade"], ","))
	if x.backend.protocol == h2c || strings.Contains(upgrade, "h2c") {
		out.Header.Del("Connection")
		out.Header.Del("Upgrade")
	}
	out.Header.Del("Http2-Settings")
}

// saysWhoAsks is whether a header is one by which proxies tell backends who the client is. Some
// backends take "_" for "-".
func saysWhoAsks(header string) bool {
	if header == "" || header[0] != 'X' && header[0] != 'F' {
		return false
	}
	name := strings.ReplaceAll(strings.ToLower(header), "_", "-")
	return name == "forwarded" || name == "x-forwarded" || name == "x-real-ip" ||
		strings.HasPrefix(name, "x-forwarded-")
}

// RoundTrip implements http.RoundTripper.
func (p *proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	return x.limit.met(p.send(r, x))
}

// send hands a request to an endpoint of its backend, and to another one if that could not be reached.
func (p *proxy) send(r *http.Request, x *exchange) (resp *http.Response, err error) {
	body := r.Body
	if body != nil {
		body = &unreadBody{ReadCloser: body}
	}
	err = p.reach(r.Context(), x, func() (err error) {
		resp, err = p.try(r, x, body)
		return err
	})
	return resp, err
}

// reach tries the endpoint that holds an exchange, and another one if that could not be reached.
func (p *proxy) reach(ctx context.Context, x *exchange, try func() error) error {
	var tried []netip.AddrPort
	var last error
	for len(tried) < attempts {
		e := x.backend.pick(tried, time.Now())
		if e == nil {
			break
		}
		x.hold(e)
		err := try()
		if err == nil && e.failed.Load() != 0 {
			e.failed.Store(0)
		}
		if err == nil || ctx.Err() != nil || !isDialError(err) {
			return err
		}
		e.failed.Store(time.Now().UnixNano())
		tried, last = append(tried, e.at), err
		// It may be gone, and there may be others by now.
		if b := p.tables.shown.Load().backend(x.part.backend, x.tenant); b != nil {
			x.backend = b
		}
	}
	return last
}

// try hands a request to the endpoint that holds it.
func (p *proxy) try(r *http.Request, x *exchange, body io.ReadCloser) (*http.Response, error) {
	ctx, attempt := x.attempt(r.Context())
	sent := r.WithContext(ctx)
	to := *r.URL
	to.Scheme, to.Host = x.backend.protocol.scheme(), x.endpoint.address
	sent.URL, sent.Body = &to, body
	return attempt.met(x.tenant.transport(x.backend.protocol).RoundTrip(sent))
}

// unreadBody is not closed before it was read: a transport that could not connect closes the body,
// and the next endpoint needs it. ReverseProxy closes it in the end.
type unreadBody struct {
	io.ReadCloser
	read atomic.Bool
}

// Read implements io.Reader.
func (b *unreadBody) Read(to []byte) (int, error) {
	b.read.Store(true)
	return b.ReadCloser.Read(to)
}

// Close implements io.Closer.
func (b *unreadBody) Close() error {
	if !b.read.Load() {
		return nil
	}
	return b.ReadCloser.Close()
}

func isDialError(err error) bool {
	var dial dialError
	return errors.As(err, &dial)
}

// failed answers a request for which no backend has an answer.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	var network net.Error
	switch {
	case errors.Is(err, errSlow):
		if r.Body != nil && r.ProtoMajor == 1 { // nobody read to where the next request begins
			w.Header().Set("Connection", "close")
		}
		http.Error(w, errSlow.Error(), http.StatusGatewayTimeout)
	case r.Context().Err() != nil:
		w.WriteHeader(clientGone)
	case errors.Is(err, errBusy):
		unavailable(w, errBusy.Error())
	case isDialError(err):
		http.Error(w, "the backend does not answer", http.StatusBadGateway)
	case errors.As(err, &network) && network.Timeout():
		http.Error(w, errSlow.Error(), http.StatusGatewayTimeout)
	default:
		http.Error(w, "the backend has no valid answer", http.StatusBadGateway)
	}
}

// buffers are those that answers are copied with.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([bufferSize]byte) }}}
}

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	buffer, _ := b.pool.Get().(*[bufferSize]byte)
	return buffer[:]
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) {
	if len(buffer) == bufferSize {
		b.pool.Put((*[bufferSize]byte)(buffer))
	}
}
