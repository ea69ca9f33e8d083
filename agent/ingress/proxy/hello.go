package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// mostHello is how long the first message of a client may be, while there are hosts whose connections are passed on.
const mostHello = 16 << 10

var errLongHello = errors.New("the first message of the client is too long")

// helloListener keeps what clients say first, for the case that their connections are passed on. While no host has
// such, it hands out connections as they are.
type helloListener struct {
	net.Listener
	tables *tables
}

// Accept implements net.Listener.
func (l *helloListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil || l.tables.shown.Load().passing == 0 {
		return conn, err
	}
	return &helloConn{Conn: conn, reading: true}, nil
}

// helloConn keeps what it reads until it is known whose the connection is: that of the server that has it, or one
// that is taken away from it.
type helloConn struct {
	net.Conn
	// reading and said belong to who reads.
	reading bool
	said    []byte

	mu            sync.Mutex
	taken, closed bool
}

// Read implements io.Reader.
func (c *helloConn) Read(to []byte) (int, error) {
	if !c.reading {
		return c.Conn.Read(to)
	}
	if len(c.said) >= mostHello {
		return 0, errLongHello
	}
	n, err := c.Conn.Read(to[:min(len(to), mostHello-len(c.said))])
	c.said = append(c.said, to[:n]...)
	return n, err
}

// leave has the server go on with the connection. c may be nil.
func (c *helloConn) leave() {
	if c != nil {
		c.reading, c.said = false, nil
	}
}

// take takes the connection from the server, for which it has ended then, and returns what was read of it. It is not
// ok if the server has closed it.
func (c *helloConn) take() (conn net.Conn, said []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken || c.closed {
		return nil, nil, false
	}
	c.taken, conn, said = true, c.Conn, c.said
	c.reading, c.said = false, nil
	return conn, said, conn.SetDeadline(time.Time{}) == nil
}

// isTaken reports whether the server has nothing to do with the connection any more.
func (c *helloConn) isTaken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

// Write implements io.Writer. What the server says of a connection that was taken from it is for nobody.
func (c *helloConn) Write(b []byte) (int, error) {
	if c.isTaken() {
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(b)
}

// SetDeadline implements net.Conn.
func (c *helloConn) SetDeadline(at time.Time) error { return c.bound(c.Conn.SetDeadline, at) }

// SetReadDeadline implements net.Conn.
func (c *helloConn) SetReadDeadline(at time.Time) error { return c.bound(c.Conn.SetReadDeadline, at) }

// SetWriteDeadline implements net.Conn.
func (c *helloConn) SetWriteDeadline(at time.Time) error { return c.bound(c.Conn.SetWriteDeadline, at) }

// bound sets a deadline, unless it would be one of another's connection.
func (c *helloConn) bound(set func(time.Time) error, at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		return io.ErrClosedPipe
	}
	return set(at)
}

// Close implements net.Conn.
func (c *helloConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		return nil
	}
	c.closed = true
	return c.Conn.Close()
}

// CloseWrite is that of the connection.
func (c *helloConn) CloseWrite() error {
	if half, ok := c.Conn.(halfCloser); ok && !c.isTaken() {
		return half.CloseWrite()
	}
	return nil
}
