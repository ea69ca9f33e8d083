package proxy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// TestIdleConnectionsGiveTheirPlaces: who holds connections and asks nothing keeps nobody out.
func TestIdleConnectionsGiveTheirPlaces(t *testing.T) {
	w := newWorld(t, Limits{Connections: 3, PerAddress: 100}, site("a.test", "a", pod(t, echoUpgrade))...)
	used := w.dial()
	upgrade(t, used, "websocket", http.StatusSwitchingProtocols)
	idle := []net.Conn{w.dial(), w.dial()}
	eventually(t, "they are accepted", func() bool {
		w.connections.mu.Lock()
		defer w.connections.mu.Unlock()
		return w.connections.idle.Len() == len(idle)
	})
	for range 10 {
		if resp := w.raw("GET /none HTTP/1.1\r\nHost: none\r\n\r\n"); resp.StatusCode != http.StatusNotFound {
			t.Fatal(resp.Status)
		}
	}
	closes(t, idle[0])
	io.WriteString(used, "still") //nolint:errcheck // the echo tells
	if _, err := io.ReadFull(used, make([]byte, len("still"))); err != nil {
		t.Errorf("a connection in use: %v", err)
	}
}

// TestFramesAreSmall: a connection of HTTP/2 keeps a buffer as large as the largest frame that it had.
func TestFramesAreSmall(t *testing.T) {
	w := newWorld(t, Limits{})
	conn := w.dial()
	const preface, empty = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	io.WriteString(conn, preface+empty) //nolint:errcheck // the answer tells
	header := make([]byte, 9)
	if _, err := io.ReadFull(conn, header); err != nil || header[3] != 4 {
		t.Fatalf("no SETTINGS: %v, %v", header, err)
	}
	settings := make([]byte, int(header[0])<<16|int(header[1])<<8|int(header[2]))
	if _, err := io.ReadFull(conn, settings); err != nil {
		t.Fatal(err)
	}
	const maxFrameSize = 5
	for ; len(settings) >= 6; settings = settings[6:] {
		if settings[1] == maxFrameSize {
			if n := binary.BigEndian.Uint32(settings[2:]); n != largestFrame {
				t.Errorf("frames have up to %d bytes", n)
			}
			return
		}
	}
	t.Error("the size of frames is not said")
}

// TestWhoComesLateHasAPlace: while little is left of all places, a tenant that has many gets no more of them.
func TestWhoComesLateHasAPlace(t *testing.T) {
	w := newWorld(t, Limits{Requests: 20, PerTenant: 16})
	w.tell(site("a.test", "a", pod(t, echoUpgrade))...)
	w.tell(site("b.test", "b", pod(t, echoUpgrade))...)
	of := func(host string, status int) {
		conn := w.dial()
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", host)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != status {
			t.Fatalf("%s: %v, %v", host, resp, err)
		}
	}
	for range 16 {
		of("a.test", http.StatusSwitchingProtocols)
	}
	of("b.test", http.StatusSwitchingProtocols)
	of("b.test", http.StatusSwitchingProtocols)
	of("b.test", http.StatusServiceUnavailable)
	of("a.test", http.StatusServiceUnavailable)
}

// TestATenantThatComesBackHasItsRequests: making a host again frees no place.
func TestATenantThatComesBackHasItsRequests(t *testing.T) {
	lines := site("a.test", "a", pod(t, echoUpgrade))
	w := newWorld(t, Limits{PerTenant: 1}, lines...)
	conn := w.dial()
	upgrade(t, conn, "websocket", http.StatusSwitchingProtocols)
	w.tell(joinapi.IngressLine{Host: &joinapi.IngressHost{Name: "a.test", Deleted: true}})
	w.tell(lines...)
	upgrade(t, w.dial(), "websocket", http.StatusServiceUnavailable)
	conn.Close() //nolint:errcheck // only closed
	eventually(t, "the place is free", func() bool { return w.inFlight.Load() == 0 })
	again := w.dial()
	upgrade(t, again, "websocket", http.StatusSwitchingProtocols)
	w.tell(joinapi.IngressLine{Host: &joinapi.IngressHost{Name: "a.test", Deleted: true}})
	if len(w.tables.leaving) != 1 {
		t.Errorf("%v are leaving", w.tables.leaving)
	}
	again.Close() //nolint:errcheck // only closed
	eventually(t, "it is forgotten", func() bool {
		w.tell()
		return len(w.tables.leaving) == 0
	})
}
