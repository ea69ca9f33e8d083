package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
)

var errBusy = errors.New("the tenant has too many connections to its backends")

// dialError is a failure to connect: nothing of the request was sent.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// mostOpen is how many connections to backends a tenant may have: as many as requests and as are in the making, and
// those that are kept.
func (t *tenant) mostOpen() int64 { return 2*int64(t.limits.PerTenant) + idlePerTenant }

func (t *tenant) dial(ctx context.Context, network, address string) (net.Conn, error) {
	defer t.dialing.Add(-1)
	if t.dialing.Add(1) > int64(t.limits.PerTenant) {
		return nil, errBusy
	}
	if !t.place() {
		t.close() // those that are kept must keep out none that is needed
		if !t.place() {
			return nil, errBusy
		}
	}
	dialer := net.Dialer{Timeout: t.limits.Dial}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		t.open.Add(-1)
		return nil, dialError{err}
	}
	return &backendConn{Conn: conn, leave: sync.OnceFunc(func() { t.open.Add(-1) })}, nil
}

// place takes a place for a connection, if there is one.
func (t *tenant) place() bool {
	if t.open.Add(1) <= t.mostOpen() {
		return true
	}
	t.open.Add(-1)
	return false
}

// backendConn gives its place back when it is closed: a handshake of TLS goes on when its request has gone.
type backendConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *backendConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// CloseWrite tells the backend of an upgraded connection that its client sends no more.
func (c *backendConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
