package proxy

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// evictEvery is how often who waits for a place looks for a connection without a request.
const evictEvery = 50 * time.Millisecond

// connections bounds those that clients have, of all listeners together.
type connections struct {
	limit, perAddress int
	// slots has one entry for each connection.
	slots chan struct{}

	mu sync.Mutex
	by map[netip.Addr]int
	// idle are those without a request, the one that is so for the longest time first.
	idle *list.List
}

func newConnections(l Limits) *connections {
	return &connections{
		limit: l.Connections, perAddress: l.PerAddress,
		slots: make(chan struct{}, l.Connections), by: map[netip.Addr]int{}, idle: list.New(),
	}
}

// scarce reports whether clients should not keep connections that they do not use.
func (c *connections) scarce() bool { return len(c.slots) > c.limit*8/10 }

// admit counts a connection of a client unless it has its share.
func (c *connections) admit(client netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by[client] >= c.perAddress {
		return false
	}
	c.by[client]++
	return true
}

func (c *connections) leave(client netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by[client]--; c.by[client] <= 0 {
		delete(c.by, client)
	}
}

// state takes note of what a connection does, see http.Server.ConnState.
func (c *connections) state(conn net.Conn, now http.ConnState) {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if reading, ok := conn.(*helloConn); ok {
		conn = reading.Conn
	}
	of, ok := conn.(*boundedConn)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if of.idle != nil {
		c.idle.Remove(of.idle)
		of.idle = nil
	}
	if now == http.StateNew || now == http.StateIdle { // new ones have sent no whole header yet
		of.idle = c.idle.PushBack(of)
	}
}

// evict closes the connection that has been without a request for the longest time, if there is one: who holds
// connections and does nothing must not keep out who would.
func (c *connections) evict() {
	c.mu.Lock()
	first := c.idle.Front()
	if first != nil {
		c.idle.Remove(first)
		first.Value.(*boundedConn).idle = nil
	}
	c.mu.Unlock()
	if first != nil {
		first.Value.(*boundedConn).Close() //nolint:errcheck // it is over, whatever it says
	}
}

// clientOf is what counts as one client: an address, or all of a network of IPv6 that one client
// usually has.
func clientOf(at net.Addr) netip.Addr {
	const ownNetwork = 64
	tcp, ok := at.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	if prefix, err := address.Prefix(ownNetwork); err == nil { // IPv4 has no such prefix
		return prefix.Addr()
	}
	return address
}

// boundedListener accepts what connections admits.
type boundedListener struct {
	net.Listener
	all    *connections
	closed chan struct{}
	once   sync.Once
}

func (c *connections) listener(inner net.Listener) net.Listener {
	return &boundedListener{Listener: inner, all: c, closed: make(chan struct{})}
}

// Accept implements net.Listener. While there are as many connections as there may be, one without a request
// gives its place; without such a one it waits, and clients wait in the queue of the kernel.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := clientOf(conn.RemoteAddr())
		if !l.all.admit(client) {
			conn.Close() //nolint:errcheck // nothing was written
			continue
		}
		if !l.place() {
			l.all.leave(client)
			conn.Close() //nolint:errcheck // nothing was written
			return nil, net.ErrClosed
		}
		return &boundedConn{Conn: conn, all: l.all, client: client}, nil
	}
}

// place waits for a place, or returns false when the listener is closed.
func (l *boundedListener) place() bool {
	for {
		if len(l.all.slots) == cap(l.all.slots) {
			l.all.evict()
		}
		select {
		case l.all.slots <- struct{}{}:
			return true
		case <-l.closed:
			return false
		case <-time.After(evictEvery): // by now one may be idle
		}
	}
}

// Close implements net.Listener.
func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// boundedConn gives its place back when it is closed.
type boundedConn struct {
	net.Conn
	all    *connections
	client netip.Addr
	once   sync.Once
	idle   *list.Element // guarded by all.mu
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		<-c.all.slots
		c.all.leave(c.client)
	})
	return err
}

// CloseWrite is what net/http does to a connection before Close, so that the client reads the last
// answer.
func (c *boundedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
