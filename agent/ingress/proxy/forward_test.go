package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// raw sends bytes as they are, and returns the answer.
func (w *world) raw(sent string) *http.Response {
	w.t.Helper()
	conn := w.dial()
	if _, err := io.WriteString(conn, sent); err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

func (w *world) dial() net.Conn {
	w.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", w.http)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() }) //nolint:errcheck // it may be closed
	return conn
}

func TestHeadersAreTheProxysOwn(t *testing.T) {
	seen := make(chan *http.Request, 1)
	at := pod(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r })
	w := newWorld(t, Limits{}, site("a.test", "a", at)...)
	w.raw("GET http://user:word@a.test/%41/b%2fc//d?a=1;b=%zz&&c HTTP/1.1\r\nHost: a.test\r\n" +
		"Connection: X-Real-Ip, X-Forwarded-For, X-Forwarded-Port, X-Gone, close\r\nX-Gone: 1\r\n" +
		"X-Real-Ip: 6.6.6.6\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Prefix: /x\r\nX_Forwarded_For: 6.6.6.6\r\n" +
		"X-Forwarded-Host: evil\r\nX-Forwarded-Proto: https\r\nForwarded: for=6.6.6.6\r\nx-real_ip: 6.6.6.6\r\n\r\n")
	r := <-seen
	_, port, _ := net.SplitHostPort(w.http)
	want := http.Header{
		"X-Forwarded-For": {"127.0.0.1"}, "X-Real-Ip": {"127.0.0.1"}, "X-Forwarded-Host": {"a.test"},
		"X-Forwarded-Proto": {"http"}, "X-Forwarded-Port": {port},
	}
	if fmt.Sprint(r.Header) != fmt.Sprint(want) {
		t.Errorf("headers %v, want %v", r.Header, want)
	}
	if r.RequestURI != "/%41/b%2fc//d?a=1;b=%zz&&c" || r.Host != "a.test" {
		t.Errorf("the backend got %q of %q", r.RequestURI, r.Host)
	}
	do(t, w.client(h2OverTLS), request(t, http.MethodGet, "https://a.test/", nil))
	r = <-seen
	_, port, _ = net.SplitHostPort(w.https)
	if r.Header.Get("X-Forwarded-Proto") != "https" || r.Header.Get("X-Forwarded-Port") != port {
		t.Errorf("headers %v", r.Header)
	}
}

func TestAnswersAreAsTheBackendSentThem(t *testing.T) {
	w := newWorld(t, Limits{}, site("a.test", "a", pod(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Encodings", r.Header.Get("Accept-Encoding"))
		w.Header().Set("Location", "http://elsewhere/")
		w.Header()["Date"] = nil
		w.WriteHeader(http.StatusFound)
	}))...)
	r := request(t, http.MethodGet, "http://a.test/", nil)
	r.Header.Set("Accept-Encoding", "identity")
	resp, _ := do(t, w.client(nil), r)
	if resp.StatusCode != 302 || resp.Header.Get("Location") != "http://elsewhere/" ||
		resp.Header.Get("X-Encodings") != "identity" {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
}

func TestUpgrade(t *testing.T) {
	w := newWorld(t, Limits{}, site("a.test", "a", pod(t, echoUpgrade))...)
	conn := w.dial()
	in := upgrade(t, conn, "websocket", http.StatusSwitchingProtocols)
	for range 3 {
		io.WriteString(conn, "ping\n") //nolint:errcheck // the answer tells
		if line, err := in.ReadString('\n'); line != "ping\n" || err != nil {
			t.Fatalf("%q, %v", line, err)
		}
	}
	if n := w.inFlight.Load(); n != 1 {
		t.Errorf("%d requests in flight", n)
	}
	conn.Close() //nolint:errcheck // only read
	eventually(t, "the upgraded connection ends", func() bool { return w.inFlight.Load() == 0 })
	if got := w.tables.shown.Load().counts()[0].Counts; got != (Counts{Successes: 1}) {
		t.Errorf("counts %+v", got)
	}
	// The tunnel of HTTP/2 would hide requests.
	upgrade(t, w.dial(), "H2C", http.StatusOK)
}

func echoUpgrade(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		return
	}
	conn, in, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // the test sees it
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
		r.Header.Get("Upgrade"))
	io.Copy(conn, in) //nolint:errcheck // its end is the test's
}

func upgrade(t *testing.T, conn net.Conn, to string, status int) *bufio.Reader {
	t.Helper()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", to)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != status {
		t.Fatalf("upgrade to %s: %v, %v", to, resp, err)
	}
	return in
}

// TestStreams is what gRPC does: both sides send in turn, and a trailer ends it.
func TestStreams(t *testing.T) {
	talk := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("X-Te", r.Header.Get("Te"))
		flush := http.NewResponseController(w)
		flush.Flush() //nolint:errcheck // the client sees it
		for in := bufio.NewScanner(r.Body); in.Scan(); flush.Flush() {
			fmt.Fprintln(w, "answer to", in.Text())
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"X-Trailer", r.Trailer.Get("X-Trailer"))
	}
	secure := httptest.NewUnstartedServer(http.HandlerFunc(talk))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	w := newWorld(t, Limits{}, hostLine("a.test", "a", prefix("/h2c"), prefix("/tls")),
		backendLine("prefix /h2c", "a", joinapi.ProtocolH2C, h2cPod(t, talk)),
		backendLine("prefix /tls", "a", joinapi.ProtocolHTTPS, addrPort(secure.Listener)))
	for scheme, set := range map[string]func(*http.Transport){"http": onlyH2C, "https": h2OverTLS} {
		for _, path := range []string{"/h2c", "/tls"} {
			t.Run(scheme+path, func(t *testing.T) { converse(t, w.client(set), scheme+"://a.test"+path) })
		}
	}
}

func converse(t *testing.T, c *http.Client, url string) {
	body, out := io.Pipe()
	r := request(t, http.MethodPost, url, body)
	r.Header.Set("Te", "trailers")
	r.Trailer = http.Header{"X-Trailer": nil}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it is read
	in := bufio.NewReader(resp.Body)
	for i := range 3 {
		fmt.Fprintln(out, i)
		if line, err := in.ReadString('\n'); line != fmt.Sprintf("answer to %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
	}
	r.Trailer.Set("X-Trailer", "sent")
	out.Close() //nolint:errcheck // it cannot fail
	if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if resp.ProtoMajor != 2 || resp.Header.Get("X-Te") != "trailers" || resp.Trailer.Get("Grpc-Status") != "0" ||
		resp.Trailer.Get("X-Trailer") != "sent" {
		t.Errorf("%s, header %v, trailer %v", resp.Proto, resp.Header, resp.Trailer)
	}
}

func TestAnotherEndpointGetsTheWholeBody(t *testing.T) {
	sent := bytes.Repeat([]byte("0123456789"), 100_000)
	check := func(w http.ResponseWriter, r *http.Request) {
		if got, err := io.ReadAll(r.Body); err != nil || !bytes.Equal(got, sent) {
			http.Error(w, "another body", http.StatusBadRequest)
		}
	}
	type newPod = func(testing.TB, http.HandlerFunc) netip.AddrPort
	for protocol, alive := range map[string]newPod{"http": pod, "h2c": h2cPod} {
		w := newWorld(t, Limits{}, hostLine("a.test", "a", all("a")))
		at := alive(t, check)
		for range 10 {
			// New endpoints each time: those that failed would not be tried.
			w.tell(backendLine("a", "a", protocol, nowhere(t), nowhere(t), at))
			resp, body := do(t, w.client(nil), request(t, http.MethodPost, "http://a.test/", bytes.NewReader(sent)))
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s %s", protocol, resp.Status, body)
			}
		}
	}
}

func TestBackendsThatFail(t *testing.T) {
	hang := make(chan struct{})
	mute := pod(t, func(http.ResponseWriter, *http.Request) { <-hang })
	t.Cleanup(func() { close(hang) })
	rude := pod(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		conn.Close() //nolint:errcheck // that is the test
	})
	endless := pod(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", answerHeader))
	})
	w := newWorld(t, Limits{Answer: 50 * time.Millisecond})
	w.tell(site("nobody.test", "a", nowhere(t), nowhere(t))...)
	w.tell(site("mute.test", "a", mute)...)
	w.tell(site("rude.test", "a", rude)...)
	w.tell(site("endless.test", "a", endless)...)
	c := w.client(nil)
	for host, want := range map[string]int{"nobody": 502, "mute": 504, "rude": 502, "endless": 502} {
		if status, body := get(t, c, "http://"+host+".test/"); status != want {
			t.Errorf("%s: %d %s, want %d", host, status, body, want)
		}
	}
	if got := w.tables.shown.Load().counts()[0].Counts; got != (Counts{ServerErrors: 4}) {
		t.Errorf("counts %+v", got)
	}
}

func TestAClientThatGoesEndsItsRequest(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	w := newWorld(t, Limits{}, site("a.test", "a", pod(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(ended)
	}))...)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	r := request(t, http.MethodGet, "http://a.test/", nil).WithContext(ctx)
	_, err := w.client(nil).Do(r) //nolint:bodyclose // there is no answer
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-ended
	eventually(t, "nothing is in flight", func() bool { return w.inFlight.Load() == 0 })
	if got := w.tables.shown.Load().counts()[0].Counts; got != (Counts{ClientErrors: 1}) {
		t.Errorf("counts %+v", got)
	}
}
