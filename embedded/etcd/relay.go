package etcd

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// relayDial bounds how long a member may take to answer a connection.
const relayDial = 3 * time.Second

// relay carries connections to members, which do TLS with the clients themselves.
type relay struct {
	log *logrus.Entry

	mu      sync.Mutex
	targets []*target
	ended   bool
	carried sync.WaitGroup
}

// target is a member. relay.mu guards it.
type target struct {
	url      string
	failures int // in a row
	links    map[net.Conn]net.Conn
}

// urls are those of the members.
func (r *relay) urls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, t := range r.targets {
		out = append(out, t.url)
	}
	return out
}

// replace makes these the members. Connections to others end.
func (r *relay) replace(urls []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var next []*target
	for _, u := range urls {
		i := slices.IndexFunc(r.targets, func(t *target) bool { return t.url == u })
		if i < 0 {
			next = append(next, &target{url: u, links: map[net.Conn]net.Conn{}})
		} else {
			next = append(next, r.targets[i])
		}
	}
	for _, t := range r.targets {
		if !slices.Contains(next, t) {
			t.cut()
		}
	}
	r.targets = next
}

// cut ends the connections to a member.
func (t *target) cut() {
	for client, server := range t.links {
		_ = client.Close()
		_ = server.Close()
	}
	clear(t.links)
}

// report notes how a member answered. Connections to one that does not are ended when
// another one does, so that clients come back to that.
func (r *relay) report(member string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answers := false
	for _, t := range r.targets {
		if t.url == member {
			if t.failures++; err == nil {
				t.failures = 0
			}
			if t.failures == failuresToLeave {
				r.log.WithError(err).Warnf("The member of the datastore at %s does not answer", member)
			}
		}
		answers = answers || t.failures == 0
	}
	for _, t := range r.targets {
		if answers && t.failures >= failuresToLeave {
			t.cut()
		}
	}
}

// accept takes connections until the listener is closed.
func (r *relay) accept(ctx context.Context, listener net.Listener) {
	for {
		client, err := listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed), ctx.Err() != nil:
			if err == nil {
				_ = client.Close()
			}
			return
		case err != nil: // too few file descriptors
			r.log.WithError(err).Warn("cannot take a connection to the datastore")
			if pause(ctx, retryPause) != nil {
				return
			}
			continue
		}
		r.carried.Add(1)
		go func() {
			defer r.carried.Done()
			r.carry(ctx, client)
		}()
	}
}

// end ends all connections and waits for that.
func (r *relay) end() {
	r.mu.Lock()
	for _, t := range r.targets {
		t.cut()
	}
	r.ended = true
	r.mu.Unlock()
	r.carried.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = false
}

// carry connects a client with the best member that answers.
func (r *relay) carry(ctx context.Context, client net.Conn) {
	defer client.Close() //nolint:errcheck // there is nobody to tell
	for _, t := range r.order() {
		u, err := url.Parse(t.url)
		if err != nil {
			continue
		}
		dialed, cancel := context.WithTimeout(ctx, relayDial)
		dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}}
		server, err := dialer.DialContext(dialed, "tcp", u.Host)
		cancel()
		if err != nil {
			continue // look finds out, too
		}
		defer server.Close() //nolint:errcheck // there is nobody to tell
		if !r.link(t, client, server) {
			return
		}
		pump(client, server)
		r.mu.Lock()
		delete(t.links, client)
		r.mu.Unlock()
		return
	}
}

// order are the members, the best first.
func (r *relay) order() []*target {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.targets)
	failing := map[*target]bool{}
	for _, t := range all {
		failing[t] = t.failures > 0
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(a, b *target) int {
		switch {
		case failing[a] == failing[b]:
			return 0
		case failing[b]:
			return -1
		}
		return 1
	})
	return all
}

// link notes a connection, unless its member has left meanwhile.
func (r *relay) link(t *target, client, server net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || !slices.Contains(r.targets, t) {
		return false
	}
	t.links[client] = server
	return true
}

// pump carries bytes until one side ends; a gRPC connection has no half.
func pump(a, b net.Conn) {
	done := make(chan struct{}, 2)
	half := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // either end is the end
		done <- struct{}{}
	}
	go half(a, b)
	go half(b, a)
	<-done
	_ = a.Close()
	_ = b.Close()
	<-done
}
