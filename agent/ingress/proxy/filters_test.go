package proxy

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
)

func TestHeaderChanges(t *testing.T) {
	for name, c := range map[string]struct {
		told joinapi.IngressHeaders
		want http.Header
	}{
		"nothing": {joinapi.IngressHeaders{}, http.Header{"A": {"1", "2"}, "B": {"3"}}},
		"set": {joinapi.IngressHeaders{Set: pairs{pair("a", "x"), pair("c", "")}},
			http.Header{"A": {"x"}, "B": {"3"}, "C": {""}}},
		"add": {joinapi.IngressHeaders{Add: pairs{pair("a", "x"), pair("c", "y"), pair("c", "z")}},
			http.Header{"A": {"1", "2", "x"}, "B": {"3"}, "C": {"y", "z"}}},
		"remove": {joinapi.IngressHeaders{Remove: []string{"a", "c"}}, http.Header{"B": {"3"}}},
		"all of them": {joinapi.IngressHeaders{
			Remove: []string{"a"}, Set: pairs{pair("A", "s")}, Add: pairs{pair("A", "t")},
		}, http.Header{"A": {"s", "t"}, "B": {"3"}}},
		"no headers": {joinapi.IngressHeaders{
			Set: pairs{pair("a b", "1"), pair("", "1"), pair("c:", "1"), pair("A", "1\r\nX: 2")},
			Add: pairs{pair("a\n", "1"), pair("B", "\x00")}, Remove: []string{"", "é"},
		}, http.Header{"A": {"1", "2"}, "B": {"3"}}},
	} {
		shared := []string{"1", "2", "in another request"}
		of := http.Header{"A": shared[:2], "B": {"3"}}
		newHeaders(&c.told, func(string) bool { return false }).change(of)
		if fmt.Sprint(of) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", name, of, c.want)
		}
		if shared[0] != "1" || shared[2] != "in another request" {
			t.Errorf("%s: another request has %v", name, shared)
		}
	}
}

func TestFiltersLeaveTheProxysHeaders(t *testing.T) {
	both := []string{"Connection", "keep-alive", "Proxy-Connection", "Transfer-Encoding", "transfer_encoding", "TE",
		"Trailer", "Upgrade", "Content-Length", "Http2-Settings"}
	requests := []string{"host", "X-Forwarded-For", "x-forwarded-anything", "X_Forwarded_For", "Forwarded",
		"X-Real-IP"}
	headersOf := func(names []string) *joinapi.IngressHeaders {
		all := &joinapi.IngressHeaders{Remove: names}
		for _, name := range names {
			all.Set, all.Add = append(all.Set, pair(name, "1")), append(all.Add, pair(name, "1"))
		}
		return all
	}
	f := newFilters(&joinapi.IngressFilters{
		Request: headersOf(slices.Concat(both, requests)), Response: headersOf(both)})
	for _, h := range []*headers{f.request, f.response} {
		if len(h.set)+len(h.add)+len(h.remove) > 0 {
			t.Errorf("filters change %+v", h)
		}
	}
	f = newFilters(&joinapi.IngressFilters{Response: headersOf(requests)})
	if len(f.response.set) != len(requests) {
		t.Errorf("headers of answers: %v", f.response.set)
	}
}

// filtered is a path whose backend has filters too.
func filtered() joinapi.IngressPath {
	p := split(joinapi.IngressPart{Backend: "b", Weight: 1, Filters: &joinapi.IngressFilters{
		Request:  &joinapi.IngressHeaders{Add: pairs{pair("X-Set", "part"), pair("Upgrade", "h2c")}},
		Response: &joinapi.IngressHeaders{Set: pairs{pair("X-Path", "part")}, Add: pairs{pair("X-Part", "1")}},
	}})
	p.Filters = &joinapi.IngressFilters{
		Request: &joinapi.IngressHeaders{
			Set: pairs{pair("x-set", "path"), pair("X-Forwarded-For", "evil"), pair("Host", "evil")},
			Add: pairs{pair("x-add", "path")}, Remove: []string{"X-Gone", "X-Forwarded-Proto", "User-Agent"}},
		Response: &joinapi.IngressHeaders{
			Set: pairs{pair("X-Path", "path"), pair("Connection", "X-Kept"), pair("Content-Length", "1")},
			Add: pairs{pair("X-Kept", "path")}, Remove: []string{"X-Hidden", "Upgrade"}},
	}
	return p
}

func TestFilters(t *testing.T) {
	seen := make(chan *http.Request, 1)
	at := pod(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		w.Header().Set("X-Hidden", "1")
		w.Header().Set("X-Kept", "backend")
		// The filter's header is not one of the connection to the backend.
		w.Header().Set("Connection", "X-Part")
		fmt.Fprint(w, "answer")
	})
	w := newWorld(t, Limits{}, hostLine("a.test", "a", filtered()), backendLine("b", "a", "", at))
	c := w.client(nil)
	for range 3 { // each request is changed as the first is
		r := request(t, http.MethodGet, "http://a.test/", nil)
		r.Header = http.Header{"X-Set": {"client"}, "X-Add": {"client"}, "X-Gone": {"1"}}
		resp, body := do(t, c, r)
		got := <-seen
		for name, want := range map[string][]string{
			"X-Set": {"path", "part"}, "X-Add": {"client", "path"}, "X-Gone": nil, "Upgrade": nil, "User-Agent": nil,
			"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"},
		} {
			if !slices.Equal(got.Header[name], want) {
				t.Errorf("the backend got %s: %q, want %q", name, got.Header[name], want)
			}
		}
		if got.Host != "a.test" || body != "answer" {
			t.Errorf("host %s, answer %q", got.Host, body)
		}
		for name, want := range map[string][]string{
			"X-Path": {"part"}, "X-Part": {"1"}, "X-Kept": {"backend", "path"}, "X-Hidden": nil, "Connection": nil,
		} {
			if !slices.Equal(resp.Header[name], want) {
				t.Errorf("the client got %s: %q, want %q", name, resp.Header[name], want)
			}
		}
	}
}

// TestFiltersAreOfEachRequest has many requests at a time, for the race detector.
func TestFiltersAreOfEachRequest(t *testing.T) {
	w := newWorld(t, Limits{}, hostLine("a.test", "a", filtered()), backendLine("b", "a", "", pod(t, says("x"))))
	c := w.client(nil)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 20 {
				resp, err := c.Do(request(t, http.MethodGet, "http://a.test/", nil))
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close() //nolint:errcheck // it is short
				if got := resp.Header["X-Kept"]; len(got) != 1 {
					t.Error(got)
				}
			}
		})
	}
	clients.Wait()
}

func TestFiltersOfUpgrades(t *testing.T) {
	w := newWorld(t, Limits{}, hostLine("a.test", "a", filtered()), backendLine("b", "a", "", pod(t, echoUpgrade)))
	conn := w.dial()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != "websocket" ||
		resp.Header.Get("Connection") != "Upgrade" || resp.Header.Get("X-Path") != "part" {
		t.Fatalf("%v, %v", resp, err)
	}
	fmt.Fprint(conn, "ping\n")
	if line, err := in.ReadString('\n'); line != "ping\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
}
