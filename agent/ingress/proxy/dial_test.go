package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// TestHandshakesCountWhenTheirRequestsHaveGone has a backend that accepts connections and says nothing.
func TestHandshakesCountWhenTheirRequestsHaveGone(t *testing.T) {
	silent := listener(t)
	var accepted atomic.Int64
	go func() {
		for conn, err := silent.Accept(); err == nil; conn, err = silent.Accept() {
			accepted.Add(1)
			defer conn.Close() //nolint:errcheck // it is over
		}
	}()
	const left = 3
	w := newWorld(t, Limits{PerTenant: 4}, hostLine("a.test", "a", limited(short, 0)),
		backendLine("b", "a", joinapi.ProtocolHTTPS, addrPort(silent)))
	of := w.tables.shown.Load().tenants["a"]
	before := of.mostOpen() - left
	of.open.Store(before)
	c := w.client(nil)
	for range left { // each in its time: the transport uses no connection in the making for another request
		if status, _ := get(t, c, "http://a.test/"); status != http.StatusGatewayTimeout {
			t.Fatal(status)
		}
	}
	if n := of.open.Load(); n != of.mostOpen() {
		t.Errorf("%d of %d are open, and nobody asks for them any more", n, of.mostOpen())
	}
	if status, body := get(t, c, "http://a.test/"); status != http.StatusServiceUnavailable {
		t.Errorf("beyond the bound: %d %s", status, body)
	}
	if n := accepted.Load(); n > left {
		t.Errorf("%d were accepted", n)
	}
	if !of.busy() {
		t.Error("a tenant that comes back would have its places again")
	}
	eventually(t, "the handshakes end", func() bool { return of.open.Load() == before })
}

// TestKeptConnectionsKeepOutNone: they are closed when their place is needed.
func TestKeptConnectionsKeepOutNone(t *testing.T) {
	secure := httptest.NewUnstartedServer(says("tls"))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	w := newWorld(t, Limits{}, hostLine("a.test", "a", prefix("/http"), prefix("/h2c"), prefix("/tls")),
		backendLine("prefix /http", "a", "", pod(t, says("http"))),
		backendLine("prefix /h2c", "a", joinapi.ProtocolH2C, h2cPod(t, says("h2c"))),
		backendLine("prefix /tls", "a", joinapi.ProtocolHTTPS, addrPort(secure.Listener)))
	of := w.tables.shown.Load().tenants["a"]
	of.open.Store(of.mostOpen() - 1)
	c := w.client(nil)
	for range 2 {
		for _, name := range []string{"http", "h2c", "tls"} {
			// The last answer's connection may be in use for a moment after it.
			eventually(t, "there is an answer of "+name, func() bool {
				status, body := get(t, c, "http://a.test/"+name)
				return status == http.StatusOK && body == name
			})
			if n := of.open.Load(); n > of.mostOpen() {
				t.Errorf("%d are open", n)
			}
		}
	}
	of.close()
	eventually(t, "all are closed", func() bool { return of.open.Load() == of.mostOpen()-1 })
}

func TestPlacesOfConnectionsComeBackOnce(t *testing.T) {
	of := &tenant{limits: Limits{PerTenant: 1, Dial: time.Second}}
	conn, err := of.dial(t.Context(), "tcp", listener(t).Addr().String())
	if err != nil || of.open.Load() != 1 {
		t.Fatalf("%v, %d open", err, of.open.Load())
	}
	conn.Close() //nolint:errcheck // the count tells
	conn.Close() //nolint:errcheck // as above
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := of.dial(ctx, "tcp", nowhere(t).String()); err == nil {
		t.Error("there is a connection to nowhere")
	}
	if n := of.open.Load(); n != 0 || of.busy() {
		t.Errorf("%d open", n)
	}
}

// TestHalfClosedUpgrades has a client that sends no more, and a backend whose answer comes after that.
func TestHalfClosedUpgrades(t *testing.T) {
	w := newWorld(t, Limits{}, site("a.test", "a", pod(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close() //nolint:errcheck // the test sees it
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		all, _ := io.ReadAll(in)
		fmt.Fprintf(conn, "had %s", all)
	}))...)
	conn := w.dial()
	in := upgrade(t, conn, "x", http.StatusSwitchingProtocols)
	fmt.Fprint(conn, "all of it")
	conn.(*net.TCPConn).CloseWrite() //nolint:errcheck // the answer tells
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(in); string(said) != "had all of it" {
		t.Errorf("%q, %v", said, err)
	}
}
