package dns

import (
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// maxQuery is the longest query over TCP that is read, in bytes. A name has 255, and what
	// clients add is padding and a cookie. One of 64 KiB with as many options as fit would take
	// more than a megabyte.
	maxQuery = 4096
	// sendBuffer is what the kernel keeps of answers that a client has not taken; left alone
	// it goes up to megabytes for each connection. The longest answer fits.
	sendBuffer = 64 << 10
)

var errLongQuery = errors.New("the query is too long")

// listener accepts as many connections as the bounds allow.
type listener struct {
	net.Listener
	bounds *bounds
}

// Accept implements net.Listener. A connection for which there is no slot is closed at once.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := conn.(*net.TCPConn)
		if who := l.bounds.sources.asker(conn.RemoteAddr()); l.bounds.connections.enter(who) {
			if ok {
				_ = tcp.SetWriteBuffer(sendBuffer) // fails for a connection that has ended
			}
			leave := sync.OnceFunc(func() { l.bounds.connections.leave(who) })
			return &connection{Conn: conn, within: l.bounds.write, leave: leave}, nil
		}
		if ok {
			_ = tcp.SetLinger(0) // nothing is left of it in the kernel either
		}
		_ = conn.Close()
	}
}

// connection is one that has a slot. The server sets deadlines for reading, each for a whole
// query, so that bytes which come one by one do not keep a connection. It sets none for
// writing, and goes on after a write that failed; so that is done here.
type connection struct {
	net.Conn
	within time.Duration
	leave  func()
}

// Read implements net.Conn. The server asks for the whole query at first.
func (c *connection) Read(p []byte) (int, error) {
	if len(p) > maxQuery {
		return 0, errLongQuery
	}
	return c.Conn.Read(p)
}

// Write implements net.Conn.
func (c *connection) Write(p []byte) (int, error) {
	err := c.SetWriteDeadline(time.Now().Add(c.within))
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if err != nil {
		_ = c.Close()
	}
	return n, err
}

// Close implements net.Conn. It may be called again.
func (c *connection) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
