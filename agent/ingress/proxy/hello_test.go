package proxy

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// helloOf is what a client says first, as one record.
func helloOf(t testing.TB, name string, more ...string) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close() //nolint:errcheck // nobody reads it
	go func() {
		defer client.Close() //nolint:errcheck // nobody reads it
		to := tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: more})
		to.HandshakeContext(t.Context()) //nolint:errcheck // nobody answers
	}()
	header := make([]byte, 5)
	if _, err := io.ReadFull(server, header); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(header[3])<<8|int(header[4]))
	if _, err := io.ReadFull(server, body); err != nil {
		t.Fatal(err)
	}
	return append(header, body...)
}

// inRecords splits a message of one record over several.
func inRecords(hello []byte, size int) (out []byte) {
	for part := range slices.Chunk(hello[5:], size) {
		out = append(out, 22, 3, 1, byte(len(part)>>8), byte(len(part)))
		out = append(out, part...)
	}
	return out
}

// TestFirstMessages: it may come in any pieces, and what is none is the matter of the server.
func TestFirstMessages(t *testing.T) {
	at, accept := rawPod(t)
	w := newWorld(t, Limits{ReadHeader: 20 * time.Second}, passes("pass.test", "a", at)...)
	hello := helloOf(t, "pass.test", strings.Repeat("x", 200))
	whole := map[string][]byte{"one record": hello, "records": inRecords(hello, 100), "bytes": inRecords(hello, 1),
		"more after it": append(slices.Clone(hello), "and more"...)}
	for name, bytesOf := range whole {
		for _, size := range []int{1, 7, len(bytesOf)} {
			client := w.secureDial()
			for part := range slices.Chunk(bytesOf, size) {
				send(t, client, part)
			}
			backend := accept()
			if got := said(t, backend, len(bytesOf)); got != string(bytesOf) {
				t.Errorf("%s in pieces of %d: the backend gets something else", name, size)
			}
			send(t, backend, "answer")
			if got := said(t, client, 6); got != "answer" {
				t.Errorf("%s in pieces of %d: the client gets %q", name, size, got)
			}
			client.Close() //nolint:errcheck // only closed
		}
	}
	for name, text := range map[string]string{"HTTP": "GET / HTTP/1.1\r\nHost: pass.test\r\n\r\n", "nothing": "",
		"half a message": string(hello[:100]), "another message": "\x16\x03\x01\x00\x04\x02\x00\x00\x00"} {
		client := w.secureDial()
		send(t, client, text)
		client.CloseWrite() //nolint:errcheck // the end tells
		if got := closes(t, client); strings.HasPrefix(got, "HTTP/1.0 400") != (name == "HTTP") {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, name := range []string{"", "other.test"} {
		conn := tls.Client(w.secureDial(), &tls.Config{InsecureSkipVerify: true, ServerName: name})
		if err := conn.HandshakeContext(t.Context()); err != nil ||
			conn.ConnectionState().PeerCertificates[0].Subject.CommonName != selfSignedName {
			t.Errorf("a client that asks for %q: %v", name, err)
		}
	}
}

// TestFirstMessagesAreBounded in length and time.
func TestFirstMessagesAreBounded(t *testing.T) {
	w := newWorld(t, Limits{ReadHeader: 20 * time.Millisecond}, passes("pass.test", "a", nowhere(t))...)
	hello := helloOf(t, "pass.test")
	slow := w.secureDial()
	send(t, slow, hello[:len(hello)-1])
	closes(t, slow)

	w = newWorld(t, Limits{ReadHeader: 20 * time.Second}, passes("pass.test", "a", nowhere(t))...)
	long := w.secureDial()
	// It says that it is longer than that, and comes in records that are nearly empty.
	message := append([]byte{0, 0, 0, 0, 0, 1, 0, 0xff, 0xff}, make([]byte, mostHello)...)
	go long.Write(inRecords(message, 3)) //nolint:errcheck // it ends
	closes(t, long)
	eventually(t, "all have given their place back", func() bool { return len(w.connections.slots) == 0 })
}

// TestNothingIsKeptWithoutSuchHosts: connections are handed out as they are then.
func TestNothingIsKeptWithoutSuchHosts(t *testing.T) {
	w := newWorld(t, Limits{}, site("open.test", "b", pod(t, says("opened")))...)
	l := &helloListener{w.connections.listener(listener(t)), w.tables}
	accept := func() net.Conn {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() }) //nolint:errcheck // only closed
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { accepted.Close() }) //nolint:errcheck // only closed
		return accepted
	}
	is := func() bool { _, ok := accept().(*helloConn); return ok }
	if is() {
		t.Error("something is kept without a host")
	}
	// One that was there before cannot be passed on, and is not opened either.
	early := w.secureDial()
	eventually(t, "it is accepted", func() bool { return len(w.connections.slots) == 2 })
	w.tell(passes("pass.test", "a", nowhere(t))...)
	if !is() {
		t.Error("nothing is kept")
	}
	send(t, early, helloOf(t, "pass.test"))
	if got := closes(t, early); !strings.HasPrefix(got, "\x15") { // an alert
		t.Errorf("a connection was opened that is to be passed on: %q", got)
	}
	for range 2 { // a change counts once
		w.tell(passes("pass.test", "a", nowhere(t))...)
	}
	w.tell(joinapi.IngressLine{Host: &joinapi.IngressHost{Name: "pass.test", Deleted: true}})
	if is() {
		t.Error("something is kept when the host is gone")
	}
}

// TestATakenConnectionIsNotTheServers: nothing that the server does to it reaches the client.
func TestATakenConnectionIsNotTheServers(t *testing.T) {
	inner, other := net.Pipe()
	defer other.Close() //nolint:errcheck // only closed
	c := &helloConn{Conn: inner, reading: true}
	go other.Write([]byte("hello")) //nolint:errcheck // it is read
	if _, err := c.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	conn, kept, ok := c.take()
	if !ok || conn != inner || !bytes.Equal(kept, []byte("hello")) {
		t.Fatalf("it is %v with %q", conn, kept)
	}
	_, err := c.Write([]byte("alert"))
	late := c.SetDeadline(time.Unix(1, 0))
	if err == nil || late == nil || c.Close() != nil || c.CloseWrite() != nil {
		t.Error("the server can use it")
	}
	if _, _, again := c.take(); again {
		t.Error("it is taken twice")
	}
	go other.Write([]byte("more")) //nolint:errcheck // it is read
	if got := said(t, conn, 4); got != "more" {
		t.Errorf("%q", got)
	}
	closed := &helloConn{Conn: inner}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := closed.take(); ok {
		t.Error("one is taken that the server has closed")
	}
}
