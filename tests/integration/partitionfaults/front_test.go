package partitionfaults_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// front is the one address before several servers, as a load balancer has it: each connection goes to the next
// server of those that were ready when it was asked last.
type front struct {
	address string

	mu    sync.Mutex
	ready []*server
	turn  int
	open  map[net.Conn]bool
}

// newFront listens at the gateway of the network until the test ends.
func newFront(t *testing.T) *front {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(gateway, "6443"))
	must(t, err)
	f := &front{address: "https://" + listener.Addr().String(), open: map[net.Conn]bool{}}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close() // nobody connects any more
		f.hangUp()
		running.Wait()
	})
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				running.Go(func() { f.serve(t.Context(), client) })
			}
		}
	})
	return f
}

// add has a server get connections.
func (f *front) add(s *server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.ready, s) {
		f.ready = append(f.ready, s)
	}
}

// remove has a server get none.
func (f *front) remove(s *server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ready = slices.DeleteFunc(f.ready, func(is *server) bool { return is == s })
}

func (f *front) next() *server {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ready) == 0 {
		return nil
	}
	f.turn++
	return f.ready[f.turn%len(f.ready)]
}

// hangUp closes all connections.
func (f *front) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.open {
		_ = c.Close() // whoever uses it sees that
	}
}

func (f *front) note(c net.Conn, open bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if open {
		f.open[c] = true
	} else {
		delete(f.open, c)
	}
}

// serve passes on what both sides say until one of them ends.
func (f *front) serve(ctx context.Context, client net.Conn) {
	defer client.Close() //nolint:errcheck // that is its end
	s := f.next()
	if s == nil {
		return
	}
	dialer := net.Dialer{Timeout: time.Second}
	server, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(s.ip, "6443"))
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // that is its end
	for _, c := range []net.Conn{client, server} {
		f.note(c, true)
		defer f.note(c, false)
	}
	var other sync.WaitGroup
	other.Go(func() {
		_, _ = io.Copy(server, client) // the other side sees that it ended
		_ = server.Close()
	})
	_, _ = io.Copy(client, server)
	_ = client.Close()
	other.Wait()
}
