package loadbalancer

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Keepalive finds a peer that is gone on a connection with nothing to send.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}

// maxAcceptPause bounds the pause after a failed accept, which is a lack of
// file descriptors.
const maxAcceptPause = time.Second

// link is one connection of a client, carried to a server.
type link struct {
	client, server net.Conn
	once           sync.Once
}

func (l *link) close() {
	l.once.Do(func() {
		_ = l.client.Close() // whoever reads from them is told
		_ = l.server.Close()
	})
}

func closeAll(links []*link) {
	for _, l := range links {
		l.close()
	}
}

// closeLater closes connections when the caller has released the lock, so that
// who comes back at once meets the new list.
func closeLater(links []*link) {
	if len(links) > 0 {
		go closeAll(links)
	}
}

// accept takes connections until ctx ends.
func (b *Balancer) accept(ctx context.Context, listener net.Listener) error {
	pause := time.Duration(0)
	for {
		client, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			pause = min(max(2*pause, 5*time.Millisecond), maxAcceptPause)
			b.log.WithError(err).Warn("cannot take a connection")
			if !sleep(ctx, pause, nil) {
				return nil
			}
			continue
		}
		pause = 0
		go b.carry(ctx, client)
	}
}

// carry connects a client with the best server that answers. If there is none,
// the client is told by the end of its connection and knows best when to come
// back.
func (b *Balancer) carry(ctx context.Context, client net.Conn) {
	l, s := b.connect(ctx, client)
	if l == nil {
		_ = client.Close() // there is nobody to tell
		return
	}
	l.pump(b.o.timing.drain)
	b.done(s, l)
}

// done forgets a connection.
func (c carrier) done(s *server, l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(s.links, l)
}

func (b *Balancer) connect(ctx context.Context, client net.Conn) (*link, *server) {
	b.mu.Lock()
	order := b.order()
	b.mu.Unlock()
	for _, s := range order {
		if ctx.Err() != nil {
			return nil, nil
		}
		upstream, err := b.dial(ctx, s.address)
		if l := b.admit(s, client, upstream, err); l != nil {
			return l, s
		}
	}
	return nil, nil
}

// admit notes how a dial ended. It returns nil if there is no connection or the
// server left the list meanwhile.
func (c carrier) admit(s *server, client, upstream net.Conn, err error) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.dials++
	if err != nil {
		s.dialFailures++
		s.failures++
		s.lastErr = err
		s.pokeNow()
		c.log.WithField("server", s.address).WithError(err).Debug("cannot connect")
		return nil
	}
	if c.running == nil || c.servers[s.address] != s {
		_ = upstream.Close()
		return nil
	}
	l := &link{client: client, server: upstream}
	s.links[l] = struct{}{}
	if len(s.links) == 1 {
		s.pokeNow() // it is watched more closely from now on
	}
	return l
}

// pump carries bytes until both sides have said all, or one is broken.
func (l *link) pump(drain time.Duration) {
	defer l.close()
	done := make(chan struct{}, 2)
	half := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		if c, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
			err = c.CloseWrite()
		}
		if err != nil {
			l.close()
		}
		done <- struct{}{}
	}
	go half(l.server, l.client)
	go half(l.client, l.server)
	<-done
	// A peer that is gone must not hold the other half for ever.
	timer := time.AfterFunc(drain, l.close)
	<-done
	timer.Stop()
}
