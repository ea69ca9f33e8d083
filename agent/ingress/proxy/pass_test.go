package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// passLine is a host whose connections are passed on to backends of these IDs.
func passLine(name, tenant string, backends ...string) joinapi.IngressLine {
	to := &joinapi.IngressPassthrough{}
	for _, id := range backends {
		to.Split = append(to.Split, joinapi.IngressPart{Backend: id, Weight: 1})
	}
	return joinapi.IngressLine{Host: &joinapi.IngressHost{Name: name, Tenant: tenant, Deep: name[0] == '*',
		Passthrough: to}}
}

// passes is such a host with one backend, both of one name.
func passes(name, tenant string, at ...netip.AddrPort) []joinapi.IngressLine {
	return []joinapi.IngressLine{passLine(name, tenant, name), backendLine(name, tenant, "", at...)}
}

// tlsPod is a server of a backend that opens connections itself.
func tlsPod(t testing.TB, h http.HandlerFunc) netip.AddrPort {
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = quiet(silent())
	s.StartTLS()
	t.Cleanup(s.Close)
	return addrPort(s.Listener)
}

// rawPod is a backend whose connections a test has.
func rawPod(t testing.TB) (at netip.AddrPort, accept func() *net.TCPConn) {
	l := listener(t)
	return addrPort(l), func() *net.TCPConn {
		t.Helper()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() }) //nolint:errcheck // it may be closed
		return conn.(*net.TCPConn)
	}
}

func (w *world) secureDial() *net.TCPConn {
	w.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", w.https)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() }) //nolint:errcheck // it may be closed
	return conn.(*net.TCPConn)
}

// said is what comes first by a connection, as many bytes as there are to come.
func said(t testing.TB, conn net.Conn, many int) string {
	t.Helper()
	got := make([]byte, many)
	conn.SetReadDeadline(time.Now().Add(20 * time.Second)) //nolint:errcheck // then it does not end
	if n, err := io.ReadFull(conn, got); err != nil {
		t.Fatalf("%d bytes came: %v", n, err)
	}
	return string(got)
}

// send says something by a connection.
func send[T string | []byte](t testing.TB, conn net.Conn, what T) {
	t.Helper()
	if _, err := conn.Write([]byte(what)); err != nil {
		t.Fatal(err)
	}
}

// passed is a connection that is passed on, on both sides, with the first message of the client.
func (w *world) passed(name string, accept func() *net.TCPConn) (client, backend *net.TCPConn) {
	w.t.Helper()
	client = w.secureDial()
	hello := helloOf(w.t, name)
	send(w.t, client, hello)
	backend = accept()
	if got := said(w.t, backend, len(hello)); got != string(hello) {
		w.t.Fatal("the backend gets something else than the client said")
	}
	return client, backend
}

func (w *world) passedCounts(tenant string) Counts {
	for _, c := range w.tables.shown.Load().counts() {
		if c.Tenant == tenant {
			return c.Counts
		}
	}
	return Counts{}
}

// TestConnectionsArePassedOn: the client sees the certificate of the backend, by each version of HTTP, and those for
// other hosts are opened as before.
func TestConnectionsArePassedOn(t *testing.T) {
	w := newWorld(t, Limits{}, append(passes("pass.test", "a", tlsPod(t, says("passed"))),
		append(site("open.test", "b", pod(t, says("opened"))), certificateLine(t, "b/c", "b", "open.test"))...)...)
	w.tell(joinapi.IngressLine{Host: &joinapi.IngressHost{Name: "open.test", Tenant: "b", Certificate: "b/c",
		Paths: []joinapi.IngressPath{all("open.test")}}})
	for name, set := range map[string]func(*http.Transport){"HTTP/1.1": nil, "HTTP/2": h2OverTLS} {
		client := w.client(set)
		for host, want := range map[string][2]string{
			"pass.test": {"Acme Co", "passed"}, "PASS.test": {"Acme Co", "passed"}, "open.test": {"b/c", "opened"},
		} {
			resp, body := do(t, client, request(t, http.MethodGet, "https://"+host+"/", nil))
			subject := resp.TLS.PeerCertificates[0].Subject
			if got := subject.CommonName + strings.Join(subject.Organization, ""); got != want[0] || body != want[1] {
				t.Errorf("%s by %s: %q with the certificate of %q", host, name, body, got)
			}
		}
		client.CloseIdleConnections()
	}
	eventually(t, "connections are counted when they end", func() bool { return w.passedCounts("a").Successes >= 2 })
	if status, _ := get(t, w.client(nil), "http://pass.test/"); status != http.StatusNotFound {
		t.Errorf("without TLS the status is %d", status)
	}
}

// TestHalfClose: who has nothing more to say still hears the other.
func TestHalfClose(t *testing.T) {
	at, accept := rawPod(t)
	w := newWorld(t, Limits{}, passes("pass.test", "a", at)...)
	client, backend := w.passed("pass.test", accept)
	send(t, client, "last")
	client.CloseWrite() //nolint:errcheck // the other side tells
	if got := closes(t, backend); got != "last" {
		t.Errorf("the backend gets %q", got)
	}
	send(t, backend, "answer")
	if got := said(t, client, 6); got != "answer" {
		t.Errorf("the client gets %q", got)
	}
	backend.Close() //nolint:errcheck // only closed
	closes(t, client)
	client, backend = w.passed("pass.test", accept)
	backend.CloseWrite() //nolint:errcheck // the other side tells
	closes(t, client)
	send(t, client, "still")
	if got := said(t, backend, 5); got != "still" {
		t.Errorf("the backend gets %q", got)
	}
	client.Close() //nolint:errcheck // only closed
	closes(t, backend)
	// What breaks, breaks on both sides.
	client, backend = w.passed("pass.test", accept)
	client.SetLinger(0) //nolint:errcheck // the other side tells
	client.Close()      //nolint:errcheck // only closed
	closes(t, backend)
	eventually(t, "all ended", func() bool { return w.inFlight.Load() == 0 && len(w.connections.slots) == 0 })
	if got := w.passedCounts("a"); got != (Counts{Successes: 3}) {
		t.Errorf("%+v", got)
	}
}

// TestHalfAConnectionIsBounded: when one side has ended, the other may not do nothing for ever.
func TestHalfAConnectionIsBounded(t *testing.T) {
	at, accept := rawPod(t)
	w := newWorld(t, Limits{Idle: 20 * time.Millisecond}, passes("pass.test", "a", at)...)
	silentClient, backend := w.passed("pass.test", accept)
	backend.CloseWrite() //nolint:errcheck // the other side tells
	closes(t, backend)
	closes(t, silentClient)
	client, silentBackend := w.passed("pass.test", accept)
	client.CloseWrite() //nolint:errcheck // the other side tells
	closes(t, client)
	closes(t, silentBackend)
	eventually(t, "all ended", func() bool { return w.inFlight.Load() == 0 && len(w.connections.slots) == 0 })
}

// TestEndpointsOfPassedConnections: one that cannot be reached is left out, and what has none is closed.
func TestEndpointsOfPassedConnections(t *testing.T) {
	alive, stranger := tlsPod(t, says("alive")), tlsPod(t, says("b")) // first, as nowhere can be anybody's later
	w := newWorld(t, Limits{}, passes("dead.test", "a", nowhere(t), nowhere(t), alive)...)
	w.tell(slices.Concat(
		passes("none.test", "a"), passes("gone.test", "a", nowhere(t)),
		[]joinapi.IngressLine{passLine("broken.test", "a", ""), passLine("zero.test", "a"),
			passLine("stranger.test", "a", "of b"), backendLine("of b", "b", "", stranger)})...)
	for range 5 {
		c := w.client(func(t *http.Transport) { t.DisableKeepAlives = true })
		if _, body := get(t, c, "https://dead.test/"); body != "alive" {
			t.Errorf("%q", body)
		}
	}
	for _, name := range []string{"none.test", "gone.test", "broken.test", "zero.test", "stranger.test"} {
		client := w.secureDial()
		send(t, client, helloOf(t, name))
		if got := closes(t, client); got != "" {
			t.Errorf("%s: the client gets %q", name, got)
		}
	}
	eventually(t, "all are counted", func() bool {
		return w.passedCounts("a") == Counts{Successes: 5, ServerErrors: 5}
	})
}

// TestWeightsOfPassedConnections: each backend has its part, and the part of one that is none is closed.
func TestWeightsOfPassedConnections(t *testing.T) {
	one, two := tlsPod(t, says("one")), tlsPod(t, says("two"))
	line := passLine("pass.test", "a", "one", "two", "", "never")
	for i, weight := range []int32{3, 1, 1, 0} {
		line.Host.Passthrough.Split[i].Weight = weight
	}
	w := newWorld(t, Limits{}, line, backendLine("one", "a", "", one), backendLine("two", "a", "", two),
		backendLine("never", "a", "", tlsPod(t, says("never"))))
	got := map[string]int{}
	for range 300 {
		c := w.client(func(t *http.Transport) { t.DisableKeepAlives = true })
		resp, err := c.Do(request(t, http.MethodGet, "https://pass.test/", nil))
		if err != nil {
			got["closed"]++
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close() //nolint:errcheck // it was read
		got[string(body)]++
	}
	if got["never"] > 0 || got["one"] < 120 || got["two"] < 20 || got["closed"] < 20 {
		t.Errorf("%v", got)
	}
}

// TestPassedConnectionsAreCounted with the requests of their tenant, of which they have half: who has many keeps out
// neither others nor requests.
func TestPassedConnectionsAreCounted(t *testing.T) {
	at, accept := rawPod(t)
	lines := append(passes("pass.test", "a", at), site("same.test", "a", pod(t, says("a")))...)
	w := newWorld(t, Limits{PerTenant: 6}, append(lines, append(site("open.test", "b", pod(t, says("b"))),
		passes("other.test", "b", tlsPod(t, says("other")))...)...)...)
	var backend *net.TCPConn
	for range 3 {
		_, backend = w.passed("pass.test", accept)
	}
	for range 5 {
		more := w.secureDial()
		send(t, more, helloOf(t, "pass.test"))
		closes(t, more)
	}
	for url, want := range map[string]int{"http://same.test/": 200, "http://open.test/": 200,
		"https://other.test/": 200} {
		if got, _ := get(t, w.client(nil), url); got != want {
			t.Errorf("%s: %d", url, got)
		}
	}
	backend.SetLinger(0) //nolint:errcheck // then it breaks
	backend.Close()      //nolint:errcheck // only closed
	eventually(t, "there is a place again", func() bool {
		return w.tables.shown.Load().tenants["a"].passed.Load() < 3
	})
	w.passed("pass.test", accept)
	if got := w.passedCounts("a"); got.ServerErrors < 5 || got.Successes < 2 {
		t.Errorf("%+v", got)
	}
}

// TestPassedConnectionsGiveTheirPlaceToNobody, as they do something for all that is known.
func TestPassedConnectionsGiveTheirPlaceToNobody(t *testing.T) {
	at, accept := rawPod(t)
	w := newWorld(t, Limits{Connections: 2, PerAddress: 100}, passes("pass.test", "a", at)...)
	one, oneBackend := w.passed("pass.test", accept)
	_, two := w.passed("pass.test", accept)
	third := w.secureDial()
	send(t, third, helloOf(t, "pass.test"))
	eventually(t, "the third waits", func() bool {
		w.connections.mu.Lock()
		defer w.connections.mu.Unlock()
		return w.connections.by[netip.MustParseAddr("127.0.0.1")] == 3 && w.connections.idle.Len() == 0
	})
	for _, backend := range []*net.TCPConn{oneBackend, two} {
		send(t, backend, "x")
	}
	if got := said(t, one, 1); got != "x" {
		t.Errorf("the client gets %q", got)
	}
	one.Close()        //nolint:errcheck // only closed
	oneBackend.Close() //nolint:errcheck // likewise
	accept()
}

// TestATakenConnectionMakesPlaceForNobody, from when it is taken, whatever the server does to it later.
func TestATakenConnectionMakesPlaceForNobody(t *testing.T) {
	at, accept := rawPod(t)
	w := newWorld(t, Limits{}, passes("pass.test", "a", at)...)
	l := w.connections.listener(listener(t))
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // only closed
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	taken := &helloConn{Conn: conn, said: []byte("hello")}
	w.connections.state(taken, http.StateNew)
	if w.connections.idle.Len() != 1 {
		t.Fatal("it would make place for nobody in any case")
	}
	err = w.passOn(t.Context(), &tls.ClientHelloInfo{ServerName: "pass.test", Conn: taken})
	if !errors.Is(err, errPassedOn) || w.connections.idle.Len() != 0 {
		t.Errorf("%v, and %d connections make place for others", err, w.connections.idle.Len())
	}
	w.connections.evict()
	if got := said(t, accept(), 5); got != "hello" {
		t.Errorf("the backend gets %q", got)
	}
}

// TestPassedConnectionsGoOn when their host goes, and drain when the proxy ends, as those of WebSockets do.
func TestPassedConnectionsGoOn(t *testing.T) {
	at, accept := rawPod(t)
	w := newWorld(t, Limits{}, passes("pass.test", "a", at)...)
	client, backend := w.passed("pass.test", accept)
	w.tell(joinapi.IngressLine{Host: &joinapi.IngressHost{Name: "pass.test", Deleted: true}},
		joinapi.IngressLine{Backend: &joinapi.IngressBackend{ID: "pass.test", Deleted: true}})
	send(t, client, "more")
	if got := said(t, backend, 4); got != "more" {
		t.Errorf("the backend gets %q", got)
	}
	requests, cancel := context.WithCancel(t.Context())
	w.Drain = 20 * time.Second
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		w.drain(w.server(requests, nil), cancel)
	}()
	send(t, client, "last")
	if got := said(t, backend, 4); got != "last" {
		t.Errorf("the backend gets %q", got)
	}
	select {
	case <-drained:
		t.Error("the proxy ended before the connection")
	default:
	}
	client.Close() //nolint:errcheck // only closed
	closes(t, backend)
	backend.Close() //nolint:errcheck // only closed
	<-drained
}

// TestPassedConnectionsEndWithTheProxy, those that last longer than it waits.
func TestPassedConnectionsEndWithTheProxy(t *testing.T) {
	at, accept := rawPod(t)
	r := run(t, Options{Drain: time.Millisecond})
	r.tell(passes("pass.test", "a", at)...)
	<-r.ready
	w := &world{t: t, https: r.https}
	client, backend := w.passed("pass.test", accept)
	r.cancel()
	closes(t, client)
	closes(t, backend)
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

// TestRequestsFindNoOtherWay to a host whose connections are passed on: its backend may ask for certificates.
func TestRequestsFindNoOtherWay(t *testing.T) {
	lines := append(site("*.x.test", "a", pod(t, says("wild"))), passLine("pass.x.test", "a", ""),
		certificateLine(t, "a/c", "a", "*.x.test"))
	w := newWorld(t, Limits{}, lines...)
	for _, set := range []func(*tls.Config){
		func(c *tls.Config) { c.ServerName = "other.x.test" },
		func(c *tls.Config) { c.ServerName = "127.0.0.1" }, // no name is sent
	} {
		client := w.client(func(t *http.Transport) { set(t.TLSClientConfig) })
		for host, want := range map[string]int{"pass.x.test": 421, "other.x.test": 200} {
			if status, body := get(t, client, "https://"+host+"/"); status != want {
				t.Errorf("%s: %d %s", host, status, body)
			}
		}
	}
	if _, body := get(t, w.client(nil), "http://pass.x.test/"); body != "wild" {
		t.Errorf("without TLS it is %q", body)
	}
}

// TestWhoseConnectionsArePassedOn: the most specific host that says something of TLS has them.
func TestWhoseConnectionsArePassedOn(t *testing.T) {
	plain := joinapi.IngressPath{Path: "/", Scheme: "http"}
	certified := func(name, tenant string) joinapi.IngressLine {
		return joinapi.IngressLine{Host: &joinapi.IngressHost{Name: name, Tenant: tenant, Certificate: "c"}}
	}
	host := func(name, tenant string, paths ...joinapi.IngressPath) joinapi.IngressLine {
		line := hostLine(name, tenant, paths...)
		line.Host.Deep = true
		return line
	}
	w := newWorld(t, Limits{},
		passLine("*.x.test", "a"), hostLine("plain.x.test", "a", plain), hostLine("open.x.test", "a", all("")),
		hostLine("https.x.test", "a", joinapi.IngressPath{Path: "/", Scheme: "https"}),
		certified("cert.x.test", "a"), hostLine("b.x.test", "b", plain),
		host("*.c.x.test", "b", plain), hostLine("d.c.x.test", "a", plain), host("*.e.x.test", "a", plain),
		hostLine("", "a", all("")))
	for name, want := range map[string]string{
		"any.x.test": "*.x.test", "deep.er.x.test": "*.x.test", "ANY.x.test.": "*.x.test", "plain.x.test": "*.x.test",
		"open.x.test": "", "https.x.test": "", "cert.x.test": "", "x.test": "", "": "", "y.test": "",
		"b.x.test": "", "c.c.x.test": "", "d.c.x.test": "*.x.test", "f.e.x.test": "*.x.test",
		strings.Repeat("a.", 200) + "x.test": "", ".x.test": "",
	} {
		s, got := w.tables.shown.Load(), ""
		if h := s.passes(name); h != nil {
			for is, of := range s.hosts {
				if of == h {
					got = is
				}
			}
		}
		if got != want {
			t.Errorf("%s is passed on by %q, want %q", name, got, want)
		}
	}
}
