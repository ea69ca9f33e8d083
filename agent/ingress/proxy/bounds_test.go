package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestDefaults(t *testing.T) {
	got := Limits{PerTenant: 7}.withDefaults(3000)
	want := Limits{
		Connections: 1000, PerAddress: 250, Requests: 1000, PerTenant: 7, Streams: 100, HeaderBytes: 64 << 10,
		ReadHeader: 10 * time.Second, Idle: time.Minute, Dial: 2 * time.Second, Answer: 5 * time.Minute,
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := (Limits{}).withDefaults(1 << 20); got.Connections != 20000 || got.Requests != 8192 {
		t.Errorf("%+v", got)
	}
	server := newWorld(t, Limits{}).server(t.Context(), nil)
	if server.ReadHeaderTimeout != 10*time.Second || server.IdleTimeout != time.Minute ||
		server.MaxHeaderBytes != 64<<10 || server.HTTP2.MaxConcurrentStreams != 100 {
		t.Errorf("%+v", server)
	}
}

// closes waits until the proxy ends a connection.
func closes(t *testing.T, conn net.Conn) string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(conn)
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		t.Error("the connection stays open")
	}
	return string(said)
}

func TestConnectionsThatSayNothingEnd(t *testing.T) {
	w := newWorld(t, Limits{ReadHeader: 20 * time.Millisecond, Idle: 20 * time.Millisecond})
	closes(t, w.dial())
	slow := w.dial()
	io.WriteString(slow, "GET / HTTP/1.1\r\nHost: a") //nolint:errcheck // it ends
	closes(t, slow)
	idle := w.dial()
	io.WriteString(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") //nolint:errcheck // it ends
	if said := closes(t, idle); !strings.HasPrefix(said, "HTTP/1.1 404 ") {
		t.Errorf("%q", said)
	}
	handshake, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.https)
	if err != nil {
		t.Fatal(err)
	}
	defer handshake.Close()                 //nolint:errcheck // it ends
	handshake.Write([]byte{22, 3, 1, 2, 0}) //nolint:errcheck // the begin of one
	closes(t, handshake)
	eventually(t, "all have given their place back", func() bool { return len(w.connections.slots) == 0 })
}

func TestLongHeadersAreRefused(t *testing.T) {
	w := newWorld(t, Limits{})
	for name, set := range map[string]func(*http.Transport){"http/1.1": nil, "h2c": onlyH2C} {
		r := request(t, http.MethodGet, "http://a.test/", nil)
		r.Header.Set("X-Long", strings.Repeat("x", 80<<10))
		resp, err := w.client(set).Do(r)
		if err != nil { // HTTP/2 may refuse by its settings
			if set == nil {
				t.Error(err)
			}
			continue
		}
		resp.Body.Close() //nolint:errcheck // it was not read
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
}

func TestOneClientHasAShareOfTheConnections(t *testing.T) {
	w := newWorld(t, Limits{Connections: 8}) // 2 for each
	one, two := w.dial(), w.dial()
	eventually(t, "two are accepted", func() bool { return len(w.connections.slots) == 2 })
	closes(t, w.dial())
	one.Close() //nolint:errcheck // only closed
	eventually(t, "one is gone", func() bool { return len(w.connections.slots) == 1 })
	if resp := w.raw("GET / HTTP/1.1\r\nHost: a\r\n\r\n"); resp.StatusCode != 404 {
		t.Error(resp.Status)
	}
	two.Close() //nolint:errcheck // only closed
}

func TestAcceptWaitsForAPlace(t *testing.T) {
	w := newWorld(t, Limits{Connections: 2, PerAddress: 100}, site("a.test", "a", pod(t, echoUpgrade))...)
	one, two := w.dial(), w.dial()
	upgrade(t, one, "websocket", http.StatusSwitchingProtocols) // they are in use, and give their places to nobody
	upgrade(t, two, "websocket", http.StatusSwitchingProtocols)
	third := w.dial()
	io.WriteString(third, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") //nolint:errcheck // the answer tells
	eventually(t, "the third waits", func() bool {
		w.connections.mu.Lock()
		defer w.connections.mu.Unlock()
		return w.connections.by[netip.MustParseAddr("127.0.0.1")] == 3
	})
	one.Close() //nolint:errcheck // only closed
	// Connections are scarce, so it is the last answer of this one.
	if said := closes(t, third); !strings.Contains(said, "404") || !strings.Contains(said, "Connection: close\r\n") {
		t.Errorf("%q", said)
	}
	two.Close() //nolint:errcheck // only closed
	eventually(t, "they gave their places back", func() bool {
		w.connections.mu.Lock()
		defer w.connections.mu.Unlock()
		return len(w.connections.by) == 0 && len(w.connections.slots) == 0
	})
}

func TestAListenerThatWaitsCanClose(t *testing.T) {
	all := newConnections(Limits{Connections: 1, PerAddress: 9})
	l := all.listener(listener(t))
	all.slots <- struct{}{}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // only opened
	ended := make(chan error)
	go func() {
		_, err := l.Accept() //nolint:bodyclose // none
		ended <- err
	}()
	eventually(t, "it waits", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return len(all.by) == 1
	})
	l.Close() //nolint:errcheck // the test
	if err := <-ended; !errors.Is(err, net.ErrClosed) || len(all.by) != 0 {
		t.Errorf("%v, %v", err, all.by)
	}
}

func TestClientOf(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1:5": "10.0.0.1", "[::ffff:10.0.0.1]:5": "10.0.0.1", "[2001:db8::1]:5": "2001:db8::",
		"[2001:db8::ffff:1]:5": "2001:db8::", "[fe80::1%eth0]:5": "fe80::",
	} {
		if got := clientOf(net.TCPAddrFromAddrPort(at(address))); got.String() != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
	if got := clientOf(&net.UnixAddr{}); got.IsValid() {
		t.Errorf("%s", got)
	}
}

// TestADeadTenantHoldsNothingOfOthers has one whose backend never answers, and all of whose places
// are taken.
func TestADeadTenantHoldsNothingOfOthers(t *testing.T) {
	const places = 20
	var waiting atomic.Int64
	dead := pod(t, func(_ http.ResponseWriter, r *http.Request) {
		waiting.Add(1)
		<-r.Context().Done()
	})
	w := newWorld(t, Limits{PerTenant: places})
	w.tell(site("dead.test", "dead", dead)...)
	w.tell(site("alive.test", "alive", pod(t, says("alive")))...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := w.client(onlyH2C)
	for range places {
		r := request(t, http.MethodGet, "http://dead.test/", nil).WithContext(ctx)
		go c.Do(r) //nolint:bodyclose,errcheck // there is no answer
	}
	eventually(t, "all places are taken", func() bool { return waiting.Load() == places })
	for range 50 {
		resp, _ := do(t, c, request(t, http.MethodGet, "http://dead.test/", nil))
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" {
			t.Fatal(resp.Status)
		}
		if status, body := get(t, c, "http://alive.test/"); status != http.StatusOK || body != "alive" {
			t.Fatalf("%d %s", status, body)
		}
	}
	cancel()
	eventually(t, "all places are free", func() bool { return w.inFlight.Load() == 0 })
	if n := w.tables.shown.Load().tenants["dead"].inFlight.Load(); n != 0 {
		t.Errorf("%d in flight", n)
	}
}

func TestUpgradedConnectionsCount(t *testing.T) {
	w := newWorld(t, Limits{PerTenant: 1}, site("a.test", "a", pod(t, echoUpgrade))...)
	conn := w.dial()
	upgrade(t, conn, "websocket", http.StatusSwitchingProtocols)
	upgrade(t, w.dial(), "websocket", http.StatusServiceUnavailable)
	conn.Close() //nolint:errcheck // only closed
	eventually(t, "the place is free", func() bool { return w.inFlight.Load() == 0 })
	upgrade(t, w.dial(), "websocket", http.StatusSwitchingProtocols)
}

func TestRequestsAreBoundedInSum(t *testing.T) {
	w := newWorld(t, Limits{Requests: 1})
	w.tell(site("a.test", "a", pod(t, echoUpgrade))...)
	w.tell(site("b.test", "b", pod(t, says("b")))...)
	conn := w.dial()
	upgrade(t, conn, "websocket", http.StatusSwitchingProtocols)
	c := w.client(nil)
	if status, _ := get(t, c, "http://b.test/"); status != http.StatusServiceUnavailable {
		t.Error(status)
	}
	conn.Close() //nolint:errcheck // only closed
	eventually(t, "the place is free", func() bool { return w.inFlight.Load() == 0 })
	if status, _ := get(t, c, "http://b.test/"); status != http.StatusOK {
		t.Error(status)
	}
}

func TestConnectionsInTheMakingAreBounded(t *testing.T) {
	w := newWorld(t, Limits{PerTenant: 1}, site("a.test", "a", pod(t, says("a")))...)
	of := w.tables.shown.Load().tenants["a"]
	of.dialing.Store(1)
	c := w.client(nil)
	if status, _ := get(t, c, "http://a.test/"); status != http.StatusServiceUnavailable {
		t.Error(status)
	}
	of.dialing.Store(0)
	if status, _ := get(t, c, "http://a.test/"); status != http.StatusOK {
		t.Error(status)
	}
}

// TestAPanicHoldsNothing is an answer that breaks off, which ReverseProxy tells net/http by a panic.
func TestAPanicHoldsNothing(t *testing.T) {
	w := newWorld(t, Limits{}, site("a.test", "a", pod(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "half") //nolint:errcheck // the test
	}))...)
	conn := w.dial()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n") //nolint:errcheck // the answer tells
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil { // it is none if it breaks off before the header is sent
		_, err = io.ReadAll(resp.Body)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the answer seems whole: %v", err)
	}
	eventually(t, "nothing is in flight", func() bool { return w.inFlight.Load() == 0 })
	if n := w.tables.shown.Load().backends["a.test"].endpoints[0].inFlight.Load(); n != 0 {
		t.Errorf("%d in flight for the endpoint", n)
	}
}
