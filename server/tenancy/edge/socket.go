package edge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/websocket"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// closeTimeout is how long a client may take to read the last events before its watch
// has ended.
const closeTimeout = time.Second

// errNoSocket is a client that could not be upgraded; it was told why.
var errNoSocket = errors.New("the connection was not upgraded")

// socket carries the events of a watch in the messages of a WebSocket, as
// upstream does. Behind the edge it is a watch over HTTP, so what comes from
// there is shown in the one way that all watches are.
type socket struct {
	w    http.ResponseWriter
	req  *http.Request // as the client sent it
	end  context.CancelFunc
	stop func() bool // no longer watches for the end

	conn     *websocket.Conn // nil before the handshake
	complete bool            // everything was sent
	text     bool            // events are text
	over     chan struct{}   // closed when no more is sent
	left     chan struct{}   // closed when the client's side has ended
}

// overHTTP is what a watch over a WebSocket is behind the edge. s is nil for
// what is none; it has to be closed.
func overHTTP(w http.ResponseWriter, req *http.Request) (_ *http.Request, s *socket) {
	if !wsstream.IsWebSocketRequest(req) {
		return req, nil
	}
	ctx, end := context.WithCancel(req.Context())
	s = &socket{w: w, req: req, end: end}
	req = req.WithContext(ctx)
	req.Header = req.Header.Clone()
	for _, name := range []string{"Connection", "Upgrade", "Sec-WebSocket-Key", "Sec-WebSocket-Version",
		"Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions"} {
		req.Header.Del(name)
	}
	return req, s
}

// open does the handshake.
func (s *socket) open() error {
	hijacker, ok := s.w.(http.Hijacker)
	if !ok {
		return errNotUpgradable
	}
	conn, buffered, err := hijacker.Hijack()
	if err != nil {
		return fmt.Errorf("upgrading the connection: %w", err)
	}
	shaken := make(chan *websocket.Conn, 1)
	s.over, s.left = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.left)
		defer s.end()
		defer close(shaken)
		// The handler that upstream has: what it asks of a handshake is asked here.
		websocket.Handler(func(ws *websocket.Conn) {
			shaken <- ws
			// Nothing is expected from the client, and nothing is kept of it.
			_, _ = io.Copy(io.Discard, ws) // how the client left does not matter
			s.end()
			<-s.over
		}).ServeHTTP(taken{s.w, conn, buffered}, s.req)
	}()
	if s.conn = <-shaken; s.conn == nil {
		return errNoSocket
	}
	// Who does not read does not keep what has ended.
	s.stop = context.AfterFunc(s.req.Context(), s.limitWrites)
	return nil
}

// limitWrites bounds the time to write to the client.
func (s *socket) limitWrites() {
	_ = s.conn.SetWriteDeadline(time.Now().Add(closeTimeout)) // a connection that is gone needs none
}

// Write implements io.Writer: b is one event.
func (s *socket) Write(b []byte) (int, error) {
	var err error
	if s.text {
		err = websocket.Message.Send(s.conn, string(b))
	} else {
		err = websocket.Message.Send(s.conn, b)
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// close ends the watch. Only of one that is complete the client is told so.
func (s *socket) close() {
	if s == nil {
		return
	}
	defer s.end()
	if s.over == nil {
		return
	}
	if s.conn != nil {
		s.stop()
		if s.complete {
			s.limitWrites()
		} else {
			_ = s.conn.SetWriteDeadline(time.Unix(1, 0)) // nothing more gets out
		}
		_ = s.conn.Close() // the client may have left before
	}
	close(s.over)
	<-s.left
}

// taken has a connection that was hijacked already.
type taken struct {
	http.ResponseWriter
	conn     net.Conn
	buffered *bufio.ReadWriter
}

// Hijack implements http.Hijacker.
func (t taken) Hijack() (net.Conn, *bufio.ReadWriter, error) { return t.conn, t.buffered, nil }
