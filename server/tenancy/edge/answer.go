package edge

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/a4s-io/a4s/server/tenancy/edge/proxied"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

const (
	// gzipFrom is the size from which upstream compresses.
	gzipFrom = 128 * 1024
	// wholeUpTo is the size up to which an answer is projected as a whole,
	// which can still become an error; beyond, it is streamed.
	wholeUpTo = gzipFrom
	// pieces is the size of the pieces in which a compressed answer goes out:
	// each has a price in HTTP/2, and the compressor writes very small ones.
	pieces = 32 * 1024
)

// gzips and piecers are expensive to make and used for large answers only. The
// level is that of upstream, the compressor a faster one.
var (
	gzips = sync.Pool{New: func() any {
		z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) //nolint:errcheck // the level is valid
		return z
	}}
	piecers = sync.Pool{New: func() any { return bufio.NewWriterSize(io.Discard, pieces) }}
	// wholes hold answers until they are translated, and until they are sent.
	wholes = sync.Pool{New: func() any { return new(bytes.Buffer) }}
)

// content is the kind of content of an answer.
type content int

const (
	object content = iota
	watchEvents
	// streamsBytes are logs and connections to containers: only errors are
	// objects.
	streamsBytes
)

// answer projects what the API server writes.
type answer struct {
	http.ResponseWriter
	projector *wire.Projector
	resource  wire.Resource
	content   content
	asks      asked
	// body is what the request sent, nil for nothing.
	body *body
	// retry is set for a request that can be tried again with another name: an
	// answer that says that the name is taken is dropped.
	retry *body
	// socket is for a watch over a WebSocket.
	socket *socket
	// seat is that of the request, nil for one that needs none.
	seat *fairqueue.Seat
	// proxied is set if a proxied server may answer, whose answer is not projected.
	proxied *proxied.Request

	code    int
	media   string
	project bool // the body is translated
	sent    bool // the header is out
	// retrying is set if the answer is dropped to try another name.
	retrying bool
	hijacked bool
	buffer   *bytes.Buffer // nil while nothing is in it
	stream   wire.Stream
	gzip     *gzip.Writer
	piecer   *bufio.Writer
	err      error
}

// asked is what a request says of its answer.
type asked struct {
	zip  bool // it accepts gzip
	yaml wish
	// indent says that JSON is to have line breaks.
	indent bool
	// over ends with it; nil for never.
	over context.Context
	// method is what it did: the answer to one that changed nothing can be refused.
	method string
}

// reads reports whether the request changed nothing.
func (a asked) reads() bool { return !writes(a.method) }

// wish is what a client says of YAML.
type wish struct {
	// yaml says that it likes YAML better than JSON, and errors that this is so for errors, too.
	yaml, errors bool
	// only says that it takes no JSON.
	only bool
}

// of reports whether an answer with a code is to be YAML.
func (w wish) of(code int) bool { return w.yaml && (w.errors || code < http.StatusBadRequest) }

func newAnswer(w http.ResponseWriter, p *wire.Projector, r wire.Resource, c content) *answer {
	return &answer{ResponseWriter: w, projector: p, resource: r, content: c}
}

// wrap gives the answer the optional interfaces of what it wraps.
func (a *answer) wrap() http.ResponseWriter { return responsewriter.WrapForHTTP1Or2(a) }

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter. The header is kept back until
// the length of the body is known or the body turns out to be long.
func (a *answer) WriteHeader(code int) {
	if code < http.StatusOK {
		a.ResponseWriter.WriteHeader(code)
		return
	}
	if a.code != 0 {
		return
	}
	a.code = code
	if code == http.StatusConflict && a.retry.generates() {
		a.retrying = true
		return
	}
	if !a.proxied.Answered() {
		a.projectWarnings()
	}
	a.warn()
	a.media, _, _ = mime.ParseMediaType(a.Header().Get("Content-Type"))
	a.project = a.translatable()
	if a.media == inJSON && a.asks.yaml.of(code) {
		a.media = ofJSON
	}
	if a.content == streamsBytes && !a.project {
		a.seat.Endless()
		a.seat.Yield() // from now on it carries bytes
	}
	if !a.project {
		a.send()
		return
	}
	if a.content == watchEvents && code == http.StatusOK {
		a.startStream(true)
	}
}

// translatable reports whether the body consists of API objects.
func (a *answer) translatable() bool {
	if a.content == streamsBytes && (a.code < http.StatusBadRequest || a.proxied.Answered()) {
		return false
	}
	switch a.media {
	case inJSON, inYAML, protobuf:
		return true
	}
	return false
}

// startStream sends the header and begins to translate what is written.
func (a *answer) startStream(watch bool) {
	if watch && a.socket != nil {
		a.stream, a.socket.text, a.err = a.projector.Events(a.media, a.resource, a.socket)
		if a.err == nil {
			a.err = a.socket.open()
			a.hijacked = a.socket.over != nil
			a.sent = a.hijacked
		}
		if a.err != nil {
			a.socket.end() // nobody is there to watch for
		}
		return
	}
	a.Header().Del("Content-Length")
	var out io.Writer = a.ResponseWriter
	if a.asks.zip && !watch {
		a.piecer = piecers.Get().(*bufio.Writer)
		a.piecer.Reset(out)
		out = a.piecer
		a.Header().Set("Content-Encoding", "gzip")
		a.Header().Add("Vary", "Accept-Encoding")
		a.gzip = gzips.Get().(*gzip.Writer)
		a.gzip.Reset(out)
		out = a.gzip
	}
	a.stream, a.err = a.projector.Stream(a.media, a.resource, watch, out)
	if a.err != nil {
		return
	}
	a.send()
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	if a.code == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.project {
		a.seat.Need()
	}
	switch {
	case a.retrying:
		return len(b), nil
	case a.err != nil:
		return 0, a.err
	case !a.project:
		return a.ResponseWriter.Write(b)
	case a.stream == nil:
		if a.buffer == nil {
			a.buffer = wholes.Get().(*bytes.Buffer) //nolint:errcheck // nothing else is in it
		}
		if a.buffer.Len()+len(b) <= a.whole() {
			return a.buffer.Write(b)
		}
		if a.err = a.noYAML(); a.err != nil {
			return 0, a.err
		}
		if a.buffer.Len()+len(b) <= a.whole() {
			return a.buffer.Write(b)
		}
		if !a.seat.Keep(len(b)) && a.asks.reads() {
			a.err = tooMuchUnread()
			return 0, a.err
		}
		defer a.seat.Let(len(b))
		a.startStream(false)
		if a.err == nil && a.buffer.Len() > 0 {
			_, a.err = a.stream.Write(a.buffer.Bytes())
		}
		a.releaseBuffer()
		if a.err != nil {
			return 0, a.err
		}
	}
	if _, a.err = a.stream.Write(b); a.err != nil {
		return 0, a.err
	}
	return len(b), nil
}

// Flush implements http.Flusher. What waits to be translated as a whole stays.
func (a *answer) Flush() {
	if !a.sent || a.err != nil || a.socket != nil {
		return
	}
	if a.stream != nil && a.content == watchEvents {
		if a.err = a.stream.Flush(); a.err != nil {
			return
		}
	}
	if f, ok := a.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// errNotUpgradable is returned for a connection that carries more than one request,
// and for an answer of API objects.
var errNotUpgradable = errors.New("the connection cannot be upgraded")

// Hijack implements http.Hijacker for upgraded connections, whose bytes belong
// to the containers.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h, ok := a.ResponseWriter.(http.Hijacker)
	if !ok || a.content != streamsBytes {
		return nil, nil, errNotUpgradable
	}
	a.hijacked = true
	a.seat.Endless()
	a.seat.Yield()
	conn, buffered, err := h.Hijack()
	if err == nil && a.asks.over != nil {
		// Upstream looks at the request no more: when the tenant is cordoned or gone, only the end
		// of the connection ends it.
		context.AfterFunc(a.asks.over, func() { _ = conn.Close() }) // it may be closed already
	}
	return conn, buffered, err
}

// projectWarnings translates the texts of Warning headers.
func (a *answer) projectWarnings() {
	warnings := a.Header().Values("Warning")
	for i, w := range warnings {
		warnings[i] = a.projector.View.Text(w)
	}
}

// warn adds the warning about the body to the header.
func (a *answer) warn() {
	b := a.body
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.warning == "" {
		return
	}
	if warning, err := utilnet.NewWarningHeader(299, "-", b.warning); err == nil {
		a.Header().Add("Warning", warning)
	}
}

// whole is the size up to which the answer is projected as a whole.
func (a *answer) whole() int {
	if a.media == ofJSON || a.media == inYAML {
		return longestYAML
	}
	if a.asks.indent && a.media == inJSON {
		return longestIndented
	}
	return wholeUpTo
}

// noYAML has an answer be JSON of which there is no YAML, if the client takes that or has
// changed something: it must not hear that it failed.
func (a *answer) noYAML() error {
	switch {
	case a.media == inYAML, a.media == ofJSON && a.asks.yaml.only && a.asks.reads():
		return tooLongForYAML()
	case a.media == ofJSON:
		a.media = inJSON
	}
	return nil
}

// tooMuchUnread is the answer to whoever does not read what was answered before.
func tooMuchUnread() error {
	return apierrors.NewTooManyRequests("long answers to earlier requests of this tenant have not been read yet: "+
		"read them, or ask for less with a limit", retryAfter)
}
