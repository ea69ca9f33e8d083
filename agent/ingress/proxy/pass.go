package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"
)

// errPassedOn has the TLS server forget a connection.
var errPassedOn = errors.New("the connection is passed on")

// passes returns the host that has connections with TLS for a name, which are not opened; nil if they are. It is the
// most specific one that says something of TLS, among those of the tenant of the most specific one.
func (s *snapshot) passes(name string) *host {
	if s.passing == 0 {
		return nil
	}
	var first *host
	for h := range s.named(hostName(name)) {
		if first == nil {
			first = h
		}
		switch {
		case h.tenant != first.tenant:
		case h.passes != nil:
			return h
		case h.opens:
			return nil
		}
	}
	return nil
}

// passOn takes a connection from the TLS server if it is not to be opened, and fails then. It goes on until both sides
// have ended it, or ctx ends.
func (p *proxy) passOn(ctx context.Context, hello *tls.ClientHelloInfo) error {
	s := p.tables.shown.Load()
	conn, _ := hello.Conn.(*helloConn)
	h := s.passes(hello.ServerName)
	if h == nil {
		conn.leave()
		return nil
	}
	if conn == nil {
		return errPassedOn // of before there was such a host: nothing was kept of what it said
	}
	p.connections.state(conn, http.StateHijacked) // it makes place for no other
	client, said, ok := conn.take()
	if !ok {
		return errPassedOn
	}
	if !p.enterPassed(h.tenant) {
		h.tenant.counts.add(http.StatusServiceUnavailable)
		return errors.Join(errPassedOn, client.Close())
	}
	go func() {
		defer p.leavePassed(h.tenant)
		defer client.Close() //nolint:errcheck // it is over, whatever it says
		h.tenant.counts.add(p.pass(ctx, client, said, s, h))
	}()
	return errPassedOn
}

// enterPassed is enter for a connection that is passed on. These last as long as anybody likes who has said one
// message, so a tenant has half of its requests as such, and the others go on.
func (p *proxy) enterPassed(t *tenant) bool {
	if t.passed.Add(1) > max(1, int64(p.Limits.PerTenant)/2) || !p.enter(t) {
		t.passed.Add(-1)
		return false
	}
	return true
}

func (p *proxy) leavePassed(t *tenant) {
	p.leave(t)
	t.passed.Add(-1)
}

// pass connects a client to an endpoint, and returns what a request would have as its status.
func (p *proxy) pass(ctx context.Context, client net.Conn, said []byte, s *snapshot, h *host) (status int) {
	chosen := h.passes.choose()
	if chosen == nil {
		return http.StatusInternalServerError
	}
	b := s.backend(chosen.backend, h.tenant)
	if b == nil || len(b.endpoints) == 0 {
		return http.StatusServiceUnavailable
	}
	x := &exchange{tenant: h.tenant, part: chosen, backend: b}
	defer x.release()
	var to net.Conn
	err := p.reach(ctx, x, func() (err error) {
		to, err = x.tenant.dial(ctx, "tcp", x.endpoint.address)
		return err
	})
	switch {
	case errors.Is(err, errBusy):
		return http.StatusServiceUnavailable
	case err != nil || to == nil:
		return http.StatusBadGateway
	}
	both := &relay{client: client, backend: to, idle: p.Limits.Idle}
	defer both.close()
	defer context.AfterFunc(ctx, both.close)()
	both.run(said, p.reverse.BufferPool)
	return http.StatusOK
}

// halfCloser is a connection that can say that no more comes.
type halfCloser interface{ CloseWrite() error }

// relay is a client and a backend whose connections are one.
type relay struct {
	client, backend net.Conn
	// idle is how long one side may do nothing when the other has nothing more to say.
	idle time.Duration
	// ended is whether one side has.
	ended atomic.Bool
}

func (r *relay) close() {
	r.client.Close()  //nolint:errcheck // it is over, whatever it says
	r.backend.Close() //nolint:errcheck // likewise
}

// run hands on what both sides say, first what the client has said already, until both have ended.
func (r *relay) run(said []byte, buffers httputil.BufferPool) {
	var running sync.WaitGroup
	hand := func(to, from net.Conn, first []byte) {
		buffer := buffers.Get()
		defer buffers.Put(buffer)
		if r.hand(to, from, first, buffer) != nil {
			r.close() // the rest of one half is of no use
		}
	}
	running.Go(func() { hand(r.client, r.backend, nil) })
	hand(r.backend, r.client, said)
	running.Wait()
}

// hand hands on what one side says. What it said first comes before.
func (r *relay) hand(to, from net.Conn, first, buffer []byte) error {
	if len(first) > 0 {
		if _, err := to.Write(first); err != nil {
			return err
		}
	}
	for {
		if r.ended.Load() {
			r.hurry(from, to)
		}
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	// Who waits for the other side by now is told, and who begins to looks itself.
	r.ended.Store(true)
	r.hurry(to, from)
	half, ok := to.(halfCloser)
	if !ok {
		return net.ErrClosed
	}
	return half.CloseWrite()
}

// hurry bounds how long what comes from one side may take.
func (r *relay) hurry(from, to net.Conn) {
	by := time.Now().Add(r.idle)
	from.SetReadDeadline(by) //nolint:errcheck // it fails if there is no connection any more
	to.SetWriteDeadline(by)  //nolint:errcheck // likewise
}
