package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
)

func TestRedirects(t *testing.T) {
	type to = joinapi.IngressRedirect
	for _, c := range []struct {
		told joinapi.IngressRedirect
		// asked is what net/http has of a request: its target, its host, and where it came.
		target, host string
		port         int
		tls          bool
		want         string
	}{
		{to{}, "/a?b=c", "a.test", 80, false, "http://a.test/a?b=c"},
		{to{}, "/a", "a.test:99", 443, true, "https://a.test/a"},
		{to{}, "/a", "a.test:99", 8080, false, "http://a.test:8080/a"},
		{to{}, "/a", "a.test", 80, true, "https://a.test:80/a"},
		{to{Scheme: "https"}, "/a", "a.test:8080", 8080, false, "https://a.test/a"},
		{to{Scheme: "http"}, "/a", "a.test", 443, true, "http://a.test/a"},
		{to{Scheme: "https", Port: 8443}, "/a", "a.test", 80, false, "https://a.test:8443/a"},
		{to{Scheme: "https", Port: 443}, "/a", "a.test", 80, false, "https://a.test/a"},
		{to{Scheme: "https", Port: 80}, "/a", "a.test", 80, false, "https://a.test:80/a"},
		{to{Port: 80}, "/a", "a.test", 8080, false, "http://a.test/a"},
		{to{Port: 8081}, "/a", "a.test", 8080, false, "http://a.test:8081/a"},
		{to{Host: "b.test"}, "/a?q", "a.test:8080", 80, false, "http://b.test/a?q"},
		{to{Host: "b.test"}, "/a", "a.test", 8080, false, "http://b.test:8080/a"},
		{to{Path: full("/new")}, "/a/b?q", "a.test", 80, false, "http://a.test/new?q"},
		{to{Path: newPrefix("/new")}, "/foo/b%2Fc/?q", "a.test", 80, false, "http://a.test/new/b%2Fc/?q"},
		{to{Path: newPrefix("")}, "/foo//evil.test", "a.test", 80, false, "http://a.test/evil.test"},
		// As they are in the request.
		{to{}, "/a%2Fb/../c//d", "a.test", 80, false, "http://a.test/a%2Fb/../c//d"},
		{to{}, "http://a.test", "a.test", 80, false, "http://a.test/"},
		{to{}, "http://user:word@a.test/x?", "a.test", 80, false, "http://a.test/x?"},
		{to{}, "/", "[::1]:8080", 8080, false, "http://[::1]:8080/"},
		{to{}, "/", "[::1]", 80, false, "http://[::1]/"},
		{to{}, "/a?q=%0d%0a&;%zz", "a.test", 80, false, "http://a.test/a?q=%0d%0a&;%zz"},
		{to{Scheme: "https"}, "/a", "a.test.", 80, false, "https://a.test/a"},
		// No way to another host, and nothing that ends the header.
		{to{}, "//evil.test/x", "a.test", 80, false, "http://a.test//evil.test/x"},
		{to{Path: full("//evil.test")}, "/", "a.test", 80, false, "http://a.test//evil.test"},
		{to{Path: full("@evil.test")}, "/", "a.test", 80, false, "http://a.test/@evil.test"},
		{to{Path: full("/\r\nSet-Cookie: a=b")}, "/", "a.test", 80, false, "http://a.test/%0D%0ASet-Cookie:%20a=b"},
		{to{}, "/\"<>\\?\"<>\\ü#x", "a.test", 80, false, "http://a.test/%22%3C%3E%5C?%22%3C%3E%5C%C3%BC%23x"},
		{to{}, "/#x", "a.test", 80, false, "http://a.test/%23x"},
		// What the server lets not pass.
		{to{Scheme: "javascript", Port: -1, Host: "b.test/x"}, "/a", "a.test", 80, false, "http://a.test/a"},
		{to{Scheme: "HTTPS", Port: 65536, Host: "b.test:1"}, "/a", "a.test", 80, false, "http://a.test/a"},
		{to{Host: "user@b.test"}, "/a", "a.test", 80, false, "http://a.test/a"},
	} {
		r := &http.Request{Method: http.MethodGet, URL: parsedURL(t, c.target), Host: c.host}
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		local := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: c.port}
		r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local))
		w := httptest.NewRecorder()
		newRedirect(&c.told, 1).answer(w, r)
		if got := w.Header().Get("Location"); got != c.want || w.Code != http.StatusFound {
			t.Errorf("%+v: %s of %s: %d %s, want %s", c.told, c.target, c.host, w.Code, got, c.want)
		}
	}
}

func TestStatusOfRedirects(t *testing.T) {
	for told, want := range map[int]int{
		301: 301, 302: 302, 303: 303, 307: 307, 308: 308,
		0: 302, 200: 302, 304: 302, 305: 302, 500: 302, -1: 302, 99999: 302,
	} {
		if got := newRedirect(&joinapi.IngressRedirect{Status: told}, 0).status; got != want {
			t.Errorf("%d: %d, want %d", told, got, want)
		}
	}
}

func TestARedirectNeedsAHost(t *testing.T) {
	for _, host := range []string{"", ":80", "a<b", "a/b"} {
		w := httptest.NewRecorder()
		newRedirect(&joinapi.IngressRedirect{}, 0).answer(w, &http.Request{URL: parsedURL(t, "/"), Host: host})
		if w.Code != http.StatusBadRequest || w.Header().Get("Location") != "" {
			t.Errorf("%q: %d %v", host, w.Code, w.Header())
		}
	}
}

func TestRedirectsAreAnswered(t *testing.T) {
	path := joinapi.IngressPath{Path: "/", Filters: &joinapi.IngressFilters{
		Redirect: &joinapi.IngressRedirect{Scheme: "https", Status: http.StatusPermanentRedirect},
		Response: &joinapi.IngressHeaders{Set: pairs{pair("X-Said", "1"), pair("Location", "elsewhere")}},
	}}
	w := newWorld(t, Limits{PerTenant: 1}, hostLine("a.test", "a", path))
	for _, set := range []func(*http.Transport){nil, onlyH2C} {
		c := w.client(set)
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			r := request(t, method, "http://a.test/x?y", nil)
			if method == http.MethodPost {
				r = request(t, method, "http://a.test/x?y", strings.NewReader("a body"))
			}
			resp, body := do(t, c, r)
			if resp.StatusCode != http.StatusPermanentRedirect || resp.Header.Get("X-Said") != "1" || body != "" ||
				len(resp.Header["Location"]) != 1 || resp.Header.Get("Location") != "https://a.test/x?y" {
				t.Errorf("%s: %s %v %q", method, resp.Status, resp.Header, body)
			}
		}
	}
	of := w.tables.shown.Load().tenants["a"]
	if got := of.counts.snapshot(); got != (Counts{Redirects: 6}) || of.inFlight.Load() != 0 {
		t.Errorf("%+v, %d in flight", got, of.inFlight.Load())
	}
	of.inFlight.Store(1)
	if status, _ := get(t, w.client(nil), "http://a.test/"); status != http.StatusServiceUnavailable {
		t.Errorf("with too many in flight: %d", status)
	}
}
