package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// lateBody is how long a client may go on sending a body when its request has an answer. A short one can come until
// then; a connection that ends earlier may take the answer along.
const lateBody = time.Second

// errAnswered is what transports get that still read the body of a request when it has its whole answer.
var errAnswered = errors.New("the request has its answer")

// requestBody is one of HTTP/1. When a request has its answer, net/http reads what is left of the body, as long as
// the client takes to send it. With HTTP/2 it resets the stream, so there is nothing to wait for.
type requestBody struct {
	io.ReadCloser
	// ended is whether all of it was read, answered whether no more must be.
	ended, answered atomic.Bool
	// reading is held while somebody reads.
	reading sync.Mutex
}

// newRequestBody returns nil if nobody would wait for a body.
func newRequestBody(r *http.Request) *requestBody {
	if r.ProtoMajor != 1 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	return &requestBody{ReadCloser: r.Body}
}

// Read implements io.Reader.
func (b *requestBody) Read(to []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.answered.Load() {
		return 0, errAnswered
	}
	n, err := b.ReadCloser.Read(to)
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
	}
	return n, err
}

// unread is whether something of it may be left.
func (b *requestBody) unread() bool { return b != nil && !b.ended.Load() }

// end bounds how long net/http reads what nobody read. The handler does nothing after it.
func (a *answer) end() {
	if !a.body.unread() || a.status == http.StatusSwitchingProtocols {
		return
	}
	// If a transport still reads, net/http ends that, and the deadline as well.
	conn := http.NewResponseController(a)
	a.body.answered.Store(true)
	conn.SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // it fails if there is no connection any more
	a.body.reading.Lock()
	defer a.body.reading.Unlock()
	conn.SetReadDeadline(time.Now().Add(lateBody)) //nolint:errcheck // as above
}
