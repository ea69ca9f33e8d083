package edge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/a4s-io/a4s/server/controlplane/failure"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// watched serves upstream's API, as it is and behind the edge for t1.
func watched(t *testing.T, upstream http.Handler) (direct, edge *httptest.Server) {
	t.Helper()
	e := New(Options{})
	direct = httptest.NewServer(upstream)
	edge = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r := read(req)
		if r.resource == nil {
			t.Errorf("%s is not a resource", req.URL)
		}
		r.space, r.ofTenant = "t1", "t1"
		e.findKind(r)
		if err := e.serveSpace(w, req, upstream, r); err != nil {
			failure.Write(w, err)
		}
	}))
	t.Cleanup(direct.Close)
	t.Cleanup(edge.Close)
	return direct, edge
}

// message is one of a WebSocket.
type message struct {
	text bool
	body string
}

var messages = websocket.Codec{Unmarshal: func(data []byte, payload byte, v any) error {
	*v.(*message) = message{payload == websocket.TextFrame, string(data)}
	return nil
}}

// listen is what comes over a WebSocket until its end.
func listen(
	t *testing.T, server *httptest.Server, path string, change func(*websocket.Config),
) (got []message, protocols []string, err error) {
	t.Helper()
	cfg, err := websocket.NewConfig(strings.Replace(server.URL, "http", "ws", 1)+path, "http://example.com")
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(cfg)
	}
	ws, err := cfg.DialContext(t.Context())
	if err != nil {
		return nil, nil, err
	}
	defer ws.Close() //nolint:errcheck // it was read to its end
	for {
		var m message
		switch err := messages.Receive(ws, &m); {
		case errors.Is(err, io.EOF):
			return got, ws.Config().Protocol, nil
		case err != nil:
			return got, ws.Config().Protocol, err
		}
		got = append(got, m)
	}
}

// TestWatchesOverWebSocket: the messages are those of upstream, event for event,
// as the tenant sees the objects in them.
func TestWatchesOverWebSocket(t *testing.T) {
	direct, edge := watched(t, newUpstreamAPI(t))
	for _, accept := range []string{"", "application/json", "application/vnd.kubernetes.protobuf",
		"application/json;as=Table;v=v1;g=meta.k8s.io",
		"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"} {
		for _, path := range []string{"/api/v1/configmaps?watch=True", "/api/v1/namespaces/default/configmaps?watch=",
			"/api/v1/watch/namespaces/default/configmaps/x", "/api/v1/namespaces?watch=1"} {
			as := func(c *websocket.Config) {
				c.Header = http.Header{}
				if accept != "" {
					c.Header.Set("Accept", accept)
				}
				c.Protocol = []string{"base64.binary.k8s.io"}
			}
			want, of, err := listen(t, direct, path, as)
			if err != nil || len(want) != 2 {
				t.Fatalf("%s as %s: upstream says %v, %v", path, accept, want, err)
			}
			got, protocol, err := listen(t, edge, path, as)
			if err != nil || len(got) != len(want) || fmt.Sprint(protocol) != fmt.Sprint(of) {
				t.Errorf("%s as %s: %v %s, %v; upstream says %v %s", path, accept, got, protocol, err, want, of)
				continue
			}
			for i := range got {
				w, g := want[i], got[i]
				if !strings.Contains(w.body, "default.t1") || strings.Contains(g.body, "default.t1") ||
					!strings.Contains(g.body, "default") {
					t.Errorf("%s as %s: %q, of upstream's %q", path, accept, g.body, w.body)
				}
				if w.text != g.text || w.text && (strings.HasSuffix(w.body, "\n") != strings.HasSuffix(g.body, "\n") ||
					strings.Count(g.body, "\n") > 1) {
					t.Errorf("%s as %s: the message has another form: %+v, of upstream's %+v", path, accept, g, w)
				}
				if g.text && (!strings.Contains(g.body, `"tenant":"t1"`) || strings.Count(g.body, `"type":"`) < 1) {
					t.Errorf("%s as %s: %s", path, accept, g.body)
				}
			}
		}
	}
}

// TestHandshakesAsUpstream: what upstream refuses is refused in the same way.
func TestHandshakesAsUpstream(t *testing.T) {
	direct, edge := watched(t, newUpstreamAPI(t))
	ask := func(server *httptest.Server, path string, headers ...string) string {
		t.Helper()
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // it was read to its end
		lines := append([]string{"GET " + path + " HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: websocket",
			"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="}, headers...)
		if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 12)
		if _, err := io.ReadFull(conn, answer); err != nil {
			t.Fatalf("%s %v: %v", path, headers, err)
		}
		return string(answer)
	}
	const ok, origin, version = "/api/v1/configmaps?watch=1", "Origin: http://x", "Sec-WebSocket-Version: 13"
	for _, c := range []struct {
		path    string
		headers []string
		want    string
	}{
		{ok, []string{origin, version}, "101"},
		{ok, []string{version}, "403"},
		{ok, []string{origin, "Sec-WebSocket-Version: 8"}, "400"},
		{ok, []string{origin}, "400"},
		{ok, []string{origin, version, "Sec-WebSocket-Protocol: a, b"}, "400"},
		{ok, []string{"Origin: http://%zz", version}, "403"},
		{ok + "&limit=x", []string{origin, version}, "400"},
		{ok, []string{origin, version, "Accept: text/html"}, "406"},
		{"/api/v1/configmaps", []string{origin, version, "Connection: close"}, "200"},
		{"/api/v1/namespaces/default/configmaps/x?watch=1", []string{origin, version}, "200"},
	} {
		d, e := ask(direct, c.path, c.headers...), ask(edge, c.path, c.headers...)
		if d != e || !strings.HasSuffix(e, c.want) {
			t.Errorf("%s %v: %q, upstream says %q", c.path, c.headers, e, d)
		}
	}
}

// TestSocketEnds: a watch over a WebSocket ends with its client, and with its
// request; whatever the client sends meanwhile is not kept, and an object of
// somebody else cuts it off.
func TestSocketEnds(t *testing.T) {
	e := New(Options{})
	began, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	var body string
	served, end := context.WithCancel(t.Context())
	defer end()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r, _ := parsePath("/api/v1/watch/configmaps")
		e.find("a", &r)
		next := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			io.WriteString(w, body) //nolint:errcheck // the test sees what comes
			w.(http.Flusher).Flush()
			began <- struct{}{}
			if body == "" {
				<-req.Context().Done()
			}
			ended <- struct{}{}
		})
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		defer context.AfterFunc(served, cancel)()
		if err := handOn(w, req.WithContext(ctx), next, &wire.Projector{View: e.view("a"), Table: e.table},
			&r, nil); err != nil {
			failure.Write(w, err)
		}
	}))
	defer server.Close()
	dial := func() *websocket.Conn {
		t.Helper()
		ws, err := websocket.Dial(strings.Replace(server.URL, "http", "ws", 1), "", "http://example.com")
		if err != nil {
			t.Fatal(err)
		}
		<-began
		return ws
	}
	await := func(what string) {
		t.Helper()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("the watch goes on after %s", what)
		}
	}
	ws := dial()
	if err := websocket.Message.Send(ws, bytes.Repeat([]byte("x"), 1<<20)); err != nil {
		t.Fatal(err)
	}
	ws.Close() //nolint:errcheck // it was open
	await("its client left")

	ws = dial()
	end()
	await("its request was over")
	if n, err := ws.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the client is not told: %d, %v", n, err)
	}

	served = t.Context()
	event := func(ns string) string {
		return `{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"` +
			ns + `"}}}` + "\n"
	}
	body = event("default.a") + event("default.b") + event("default.a")
	var got []message
	for ws = dial(); ; {
		var m message
		if err := messages.Receive(ws, &m); err != nil {
			break
		}
		got = append(got, m)
	}
	await("what is not the tenant's")
	if len(got) != 1 || !strings.Contains(got[0].body, `"tenant":"a"`) {
		t.Errorf("came: %v", got)
	}
}
