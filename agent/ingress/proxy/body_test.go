package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// worldOfAnswers has a path for each way to answer a request without reading its body, whose status is its name.
func worldOfAnswers(t *testing.T, limits Limits) *world {
	redirected := joinapi.IngressPath{Path: "/302", Filters: &joinapi.IngressFilters{
		Redirect: &joinapi.IngressRedirect{Scheme: "https"}}}
	return newWorld(t, limits, hostLine("a.test", "a", redirected, prefix("/503"), prefix("/502"),
		prefix("/401"), prefix("/200")),
		backendLine("prefix /503", "a", ""), backendLine("prefix /502", "a", "", nowhere(t)),
		backendLine("prefix /401", "a", "", early(t, http.StatusUnauthorized, "no")),
		backendLine("prefix /200", "a", "", early(t, http.StatusOK, strings.Repeat("x", 1<<16))),
		hostLine("b.test", "b", joinapi.IngressPath{Path: "/"}))
}

// early is a backend that answers each connection before it has the body, and never reads that.
func early(t *testing.T, status int, body string) netip.AddrPort {
	l := listener(t)
	serve := func(conn net.Conn) {
		defer conn.Close() //nolint:errcheck // the test sees it
		in := bufio.NewReader(conn)
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		fmt.Fprintf(conn, "HTTP/1.1 %d Early\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
		io.Copy(io.Discard, in) //nolint:errcheck // its end is the proxy's
	}
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go serve(conn)
		}
	}()
	return addrPort(l)
}

// TestBodiesThatNeverCome hold no connection: the request has its answer, and counts for nobody any more.
func TestBodiesThatNeverCome(t *testing.T) {
	w := worldOfAnswers(t, Limits{PerAddress: 1000})
	type sent struct {
		what string
		conn net.Conn
		want string
	}
	var all []sent
	for _, length := range []string{
		"Content-Length: 10\r\n\r\n", "Content-Length: 10\r\n\r\nhalf", "Content-Length: 1000000\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n5\r\n", "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n",
	} {
		for line, want := range map[string]string{
			"POST /302 HTTP/1.1\r\nHost: a.test": "302", "POST /404 HTTP/1.1\r\nHost: a.test": "404",
			"POST /500 HTTP/1.1\r\nHost: b.test": "500", "POST /503 HTTP/1.1\r\nHost: a.test": "503",
			"POST /502 HTTP/1.1\r\nHost: a.test": "502", "POST /401 HTTP/1.1\r\nHost: a.test": "401",
			"POST /200 HTTP/1.1\r\nHost: a.test": "200", "POST / HTTP/1.1\r\nHost: none.test": "404",
			"POST /302 HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive": "302",
			"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test":                  "405",
			"GET foo:bar HTTP/1.1\r\nHost: a.test":                         "400",
			"OPTIONS * HTTP/1.1\r\nHost: a.test":                           "200",
		} {
			conn := w.dial()
			fmt.Fprint(conn, line, "\r\n", length)
			all = append(all, sent{line + "\r\n" + length, conn, want})
		}
	}
	for _, s := range all {
		said := closes(t, s.conn)
		if strings.HasPrefix(said, "HTTP/1.1 100 Continue\r\n\r\n") { // the backend's connection asked for it
			_, said, _ = strings.Cut(said, "\r\n\r\n")
		}
		if !strings.HasPrefix(said, "HTTP/1.1 "+s.want+" ") || !strings.Contains(said, "\r\nConnection: close\r\n") {
			t.Errorf("%q: %.200q, want %s", s.what, said, s.want)
		}
	}
	eventually(t, "all have given their place back", func() bool {
		return len(w.connections.slots) == 0 && w.inFlight.Load() == 0
	})
}

// TestWhoSendsNoBodyKeepsNobodyOut has all connections held by requests whose bodies do not come.
func TestWhoSendsNoBodyKeepsNobodyOut(t *testing.T) {
	w := worldOfAnswers(t, Limits{Connections: 3, PerAddress: 100})
	for range 3 {
		fmt.Fprint(w.dial(), "POST /302 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\n")
	}
	late := w.dial()
	fmt.Fprint(late, "GET /302 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
	if said := closes(t, late); !strings.HasPrefix(said, "HTTP/1.1 302 ") {
		t.Errorf("%q", said)
	}
}

// TestABodyThatComesCanComeLate: it is no reason for a reset, which would take the answer along.
func TestABodyThatComesCanComeLate(t *testing.T) {
	w := worldOfAnswers(t, Limits{})
	conn := w.dial()
	fmt.Fprint(conn, "POST /302 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusFound || !resp.Close {
		t.Fatalf("%v, %v", resp, err)
	}
	io.WriteString(conn, "0123456789") //nolint:errcheck // the end tells
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

// TestABodyThatWasReadKeepsItsConnection: only one that is left over is its end.
func TestABodyThatWasReadKeepsItsConnection(t *testing.T) {
	w := newWorld(t, Limits{}, site("a.test", "a", pod(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // the answer tells
	}))...)
	conn := w.dial()
	in := bufio.NewReader(conn)
	for _, body := range []string{
		"Content-Length: 4\r\n\r\nbody", "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
	} {
		fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: a.test\r\n", body)
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != http.StatusOK || resp.Close {
			t.Fatalf("%q: %v, %v", body, resp, err)
		}
	}
}

// TestUnreadBodiesOfHTTP2 end with their streams, and not with the connection.
func TestUnreadBodiesOfHTTP2(t *testing.T) {
	w := worldOfAnswers(t, Limits{})
	c := w.client(onlyH2C)
	for range 3 {
		for path, want := range map[string]int{"/302": 302, "/404": 404, "/502": 502, "/401": 401} {
			body, out := io.Pipe()
			if resp, _ := do(t, c, request(t, http.MethodPost, "http://a.test"+path, body)); resp.StatusCode != want {
				t.Errorf("%s: %s", path, resp.Status)
			}
			out.Close() //nolint:errcheck // it cannot fail
		}
	}
	if n := len(w.connections.slots); n != 1 {
		t.Errorf("%d connections", n)
	}
	eventually(t, "nothing is in flight", func() bool { return w.inFlight.Load() == 0 })
}
