package edge

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/a4s-io/a4s/server/tenancy/authn"
	"github.com/a4s-io/a4s/server/tenancy/edge/proxied"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/listsize"
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
	// reads is set if it changed nothing, so that the answer can be refused.
	reads bool
}

func newAnswer(w http.ResponseWriter, p *wire.Projector, r wire.Resource, c content) *answer {
	return &answer{ResponseWriter: w, projector: p, resource: r, content: c}
}

// serveAnswer runs the request and sends the projected answer. If the edge generates
// the name of the object, it generates another one as long as the name is taken.
func serveAnswer(
	w http.ResponseWriter, req *http.Request, next http.Handler, p *wire.Projector, r *resourceRequest, sent *body,
) error {
	c := object
	var s *socket
	switch {
	case r.streams():
		c = streamsBytes
	case r.watches():
		c = watchEvents
		req, s = overHTTP(w, req)
		defer s.close()
	}
	var yaml wish
	if c == object {
		req, yaml = inJSONInstead(req)
	}
	if r.verb == "list" && strings.Contains(req.Header.Get("Accept"), protobuf) {
		ctx, size := listsize.With(req.Context())
		own := *p
		own.Listed = func() (l wire.Listed, ok bool) {
			l.Items, l.Names, ok = size.Get()
			return l, ok
		}
		req, p = req.WithContext(ctx), &own
	}
	for attempt := 1; ; attempt++ {
		a := newAnswer(w, p, r.wire(), c)
		a.asks = asked{zip: acceptsGzip(req), yaml: yaml, reads: !writes(req.Method)}
		a.body, a.socket = sent, s
		a.proxied = proxied.From(req.Context())
		a.seat = fairqueue.Of(req.Context())
		if attempt < generateAttempts {
			a.retry = sent
		}
		next.ServeHTTP(a.wrap(), req)
		if a.retrying {
			body, err := sent.again()
			if err != nil {
				return err
			}
			w.Header().Del("Content-Length")
			req = authn.Again(req)
			setBody(req, body)
			continue
		}
		return a.finish()
	}
}

// acceptsGzip reads the Accept-Encoding that the client sent.
func acceptsGzip(req *http.Request) bool {
	encodings, _ := req.Context().Value(encodingKey{}).(string)
	for _, part := range strings.Split(encodings, ",") {
		if name, _, _ := strings.Cut(strings.TrimSpace(part), ";"); name == "gzip" {
			return true
		}
	}
	return false
}

type encodingKey struct{}

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
	a.body.warn(a.Header())
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

func (a *answer) send() {
	if !a.sent {
		a.sent = true
		a.ResponseWriter.WriteHeader(a.code)
	}
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
		if !a.seat.Keep(len(b)) && a.asks.reads {
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
	return h.Hijack()
}

// finish sends the rest. An error after the header was sent cannot be reported any
// more: the connection is cut, so that the client does not take a part for the whole.
func (a *answer) finish() error {
	if a.socket != nil {
		return a.finishSocket()
	}
	if a.hijacked {
		return nil
	}
	return a.finishHTTP()
}

// finishSocket is finish for a watch over a WebSocket, which is still an answer
// over HTTP when there was nothing to watch.
func (a *answer) finishSocket() error {
	if !a.hijacked {
		return a.finishHTTP()
	}
	if a.err == nil {
		a.err = a.stream.Close()
	}
	a.socket.complete = a.err == nil
	if isForeign(a.err) {
		logrus.WithField("component", "tenancy").WithError(a.err).Error("A watch of a tenant was cut off")
	}
	return nil
}

// isForeign reports whether an answer failed on content that a tenant must not see.
func isForeign(err error) bool {
	return errors.Is(err, wire.ErrForeign) || errors.Is(err, wire.ErrMalformed)
}

func (a *answer) finishHTTP() error {
	if a.code == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.project && a.stream == nil && a.err == nil {
		a.finishWhole()
	}
	if a.stream != nil && a.err == nil {
		a.err = a.stream.Close()
		if a.gzip != nil && a.err == nil {
			a.err = a.gzip.Close()
		}
		if a.piecer != nil && a.err == nil {
			a.err = a.piecer.Flush()
		}
	}
	a.release()
	switch {
	case a.err == nil:
		return nil
	case !a.sent:
		a.Header().Del("Content-Length")
		a.Header().Del("Content-Encoding")
		if status := apierrors.APIStatus(nil); errors.As(a.err, &status) {
			return a.err
		}
		return refuseAnswer(a.err)
	case isForeign(a.err):
		logrus.WithField("component", "tenancy").WithError(a.err).Error("An answer to a tenant was cut off")
		a.cut()
		return nil
	default:
		return nil // the client is gone
	}
}

// release returns the pooled writers. They keep no reference to the connection.
func (a *answer) release() {
	a.releaseBuffer()
	if a.gzip != nil {
		a.gzip.Reset(io.Discard)
		gzips.Put(a.gzip)
		a.gzip = nil
	}
	if a.piecer != nil {
		a.piecer.Reset(io.Discard)
		piecers.Put(a.piecer)
		a.piecer = nil
	}
}

// cut ends the connection, or the stream of it, before the end of the answer.
func (a *answer) cut() {
	past := time.Unix(1, 0)
	if err := http.NewResponseController(a.ResponseWriter).SetWriteDeadline(past); err != nil {
		logrus.WithField("component", "tenancy").WithError(err).Error("The connection could not be cut")
	}
}

// refuseAnswer is the error in place of an answer that the tenant must not see.
func refuseAnswer(err error) error {
	logrus.WithField("component", "tenancy").WithError(err).Error("An answer to a tenant was refused")
	return apierrors.NewInternalError(errors.New("the answer could not be shown in this space"))
}

// projectWarnings translates the texts of Warning headers.
func (a *answer) projectWarnings() {
	warnings := a.Header().Values("Warning")
	for i, w := range warnings {
		warnings[i] = a.projector.View.Text(w)
	}
}
