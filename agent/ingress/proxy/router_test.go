package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
)

func prefix(path string) joinapi.IngressPath {
	return joinapi.IngressPath{Path: path, Backend: "prefix " + path}
}

func exact(path string) joinapi.IngressPath {
	return joinapi.IngressPath{Path: path, Exact: true, Backend: "exact " + path}
}

// found is the backend of the route that has a request, "" if none has it.
func found(h *host, r *http.Request) string {
	if to, err := h.find(r); err == nil {
		return to.parts[0].backend
	}
	return ""
}

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		paths     []joinapi.IngressPath
		requested string
		want      string
	}{
		// The table of https://kubernetes.io/docs/concepts/services-networking/ingress/#examples
		{[]joinapi.IngressPath{prefix("/")}, "/", "prefix /"},
		{[]joinapi.IngressPath{prefix("/")}, "/any/path", "prefix /"},
		{[]joinapi.IngressPath{exact("/foo")}, "/foo", "exact /foo"},
		{[]joinapi.IngressPath{exact("/foo")}, "/bar", ""},
		{[]joinapi.IngressPath{exact("/foo")}, "/foo/", ""},
		{[]joinapi.IngressPath{exact("/foo/")}, "/foo", ""},
		{[]joinapi.IngressPath{prefix("/foo")}, "/foo", "prefix /foo"},
		{[]joinapi.IngressPath{prefix("/foo")}, "/foo/", "prefix /foo"},
		{[]joinapi.IngressPath{prefix("/foo/")}, "/foo", "prefix /foo/"},
		{[]joinapi.IngressPath{prefix("/foo/")}, "/foo/", "prefix /foo/"},
		{[]joinapi.IngressPath{prefix("/aaa/bb")}, "/aaa/bbb", ""},
		{[]joinapi.IngressPath{prefix("/aaa/bbb")}, "/aaa/bbb", "prefix /aaa/bbb"},
		{[]joinapi.IngressPath{prefix("/aaa/bbb/")}, "/aaa/bbb", "prefix /aaa/bbb/"},
		{[]joinapi.IngressPath{prefix("/aaa/bbb")}, "/aaa/bbb/", "prefix /aaa/bbb"},
		{[]joinapi.IngressPath{prefix("/aaa/bbb")}, "/aaa/bbb/ccc", "prefix /aaa/bbb"},
		{[]joinapi.IngressPath{prefix("/aaa/bbb")}, "/aaa/bbbxyz", ""},
		{[]joinapi.IngressPath{prefix("/aaa"), prefix("/")}, "/aaa/ccc", "prefix /aaa"},
		{[]joinapi.IngressPath{prefix("/aaa/bbb"), prefix("/aaa"), prefix("/")}, "/aaa/bbb/ccc", "prefix /aaa/bbb"},
		{[]joinapi.IngressPath{prefix("/aaa/bbb"), prefix("/aaa"), prefix("/")}, "/ccc", "prefix /"},
		{[]joinapi.IngressPath{prefix("/aaa")}, "/ccc", ""},
		{[]joinapi.IngressPath{exact("/foo"), prefix("/foo")}, "/foo", "exact /foo"},
		// More.
		{[]joinapi.IngressPath{exact("/foo/")}, "/foo/", "exact /foo/"},
		{[]joinapi.IngressPath{exact("/foo"), prefix("/foo")}, "/foo/bar", "prefix /foo"},
		{[]joinapi.IngressPath{prefix("/foo")}, "/foobar", ""},
		{[]joinapi.IngressPath{prefix("/foo")}, "//foo//bar", "prefix /foo"},
		{[]joinapi.IngressPath{prefix("/admin"), prefix("/foo")}, "/foo/../admin", "prefix /admin"},
		{[]joinapi.IngressPath{prefix("/foo")}, "/../foo/./", "prefix /foo"},
		{[]joinapi.IngressPath{exact("/")}, "", "exact /"},
		{[]joinapi.IngressPath{exact("/")}, "/", "exact /"},
		{[]joinapi.IngressPath{exact("/")}, "/x", ""},
		{[]joinapi.IngressPath{exact("/a/b/c"), prefix("/a/b"), exact("/a"), prefix("/")}, "/a/b/d", "prefix /a/b"},
		{[]joinapi.IngressPath{exact("/a/b/c"), prefix("/a/b"), exact("/a"), prefix("/")}, "/a/c", "prefix /"},
		{[]joinapi.IngressPath{{Path: "/a/", Backend: "first"}, {Path: "/a", Backend: "second"}}, "/a", "first"},
		{nil, "/", ""},
	} {
		h := newHost(&joinapi.IngressHost{Paths: c.paths}, nil)
		r := &http.Request{URL: &url.URL{Path: c.requested}}
		if got := found(h, r); got != c.want {
			t.Errorf("%v: %q has %q, want %q", c.paths, c.requested, got, c.want)
		}
	}
}

func TestHostName(t *testing.T) {
	for header, want := range map[string]string{
		"": "", "Example.COM": "example.com", "example.com:8080": "example.com", "example.com.": "example.com",
		"example.com.:80": "example.com", "[::1]:80": "::1", "[::1]": "::1", "::1": "::1", "10.0.0.1:80": "10.0.0.1",
		":80": "", "[": "",
	} {
		if got := hostName(header); got != want {
			t.Errorf("%q is %q, want %q", header, got, want)
		}
	}
}

func TestHosts(t *testing.T) {
	w := newWorld(t, Limits{})
	for _, name := range []string{"foo.com", "*.foo.com", "own.foo.com", ""} {
		id := "[" + name + "]"
		w.tell(hostLine(name, "a", all(id)), backendLine(id, "a", "", pod(t, says(id))))
	}
	c := w.client(nil)
	for host, want := range map[string]string{
		"foo.com": "[foo.com]", "FOO.com.": "[foo.com]", "bar.foo.com": "[*.foo.com]",
		"own.foo.com:80":  "[own.foo.com]",
		"baz.bar.foo.com": "[]", "other.com": "[]", "127.0.0.1": "[]", ".foo.com": "[]", "[::1]:80": "[]",
	} {
		r := request(t, http.MethodGet, "http://proxy.test/x", nil)
		r.Host = host
		if resp, body := do(t, c, r); resp.StatusCode != http.StatusOK || body != want {
			t.Errorf("%q: %d %q, want %q", host, resp.StatusCode, body, want)
		}
	}
	w.tell(joinapi.IngressLine{Host: &joinapi.IngressHost{Name: "", Deleted: true}})
	if status, body := get(t, c, "http://other.com/"); status != 404 || body != "no Ingress has this host\n" {
		t.Errorf("%d %q", status, body)
	}
}

// TestHostsOfTheGatewayAPI: its wildcards are for any number of labels, and a listener can have a certificate before
// it has routes.
func TestHostsOfTheGatewayAPI(t *testing.T) {
	w := newWorld(t, Limits{})
	for name, deep := range map[string]bool{"*.foo.com": true, "*.b.foo.com": false, "c.d.foo.com": false, "": false} {
		id := "[" + name + "]"
		line := hostLine(name, "a", all(id))
		line.Host.Deep = deep
		w.tell(line, backendLine(id, "a", "", pod(t, says(id))))
	}
	w.tell(hostLine("bare.foo.com", "a"))
	c := w.client(nil)
	for host, want := range map[string]string{
		"a.foo.com": "[*.foo.com]", "a.b.foo.com": "[*.b.foo.com]", "a.a.b.foo.com": "[*.foo.com]",
		"c.d.foo.com": "[c.d.foo.com]", "a.c.d.foo.com": "[*.foo.com]", "foo.com": "[]", "com": "[]",
		"bare.foo.com": "[*.foo.com]", "a.bare.foo.com": "[*.foo.com]", "..foo.com": "[]", "a..foo.com": "[*.foo.com]",
		strings.Repeat("a.", 20000) + "foo.com": "[]",
	} {
		r := request(t, http.MethodGet, "http://proxy.test/x", nil)
		r.Host = host
		if resp, body := do(t, c, r); resp.StatusCode != http.StatusOK || body != want {
			t.Errorf("%.40q: %d %q, want %q", host, resp.StatusCode, body, want)
		}
	}
}

// TestRequestsStayWithTheTenant: a host without paths hands its requests to no wider host of another tenant.
func TestRequestsStayWithTheTenant(t *testing.T) {
	w := newWorld(t, Limits{}, hostLine("bare.foo.com", "b"), hostLine("both.foo.com", "c"),
		withCertificate("*.foo.com", "a", ""), withCertificate("*.com", "b", ""), hostLine("a.bar.com", "a"),
		backendLine("backend of a", "a", "", pod(t, says("a"))),
		backendLine("backend of b", "b", "", pod(t, says("b"))))
	deep := withCertificate("*.com", "b", "")
	deep.Host.Deep = true
	w.tell(deep)
	for host, want := range map[string]string{
		"x.foo.com": "200 a", "x.bar.com": "200 b", "bare.foo.com": "200 b",
		"both.foo.com": "404 no Ingress has this host\n", "a.bar.com": "404 no Ingress has this host\n",
	} {
		for _, scheme := range []string{"http", "https"} {
			status, body := get(t, w.client(nil), scheme+"://"+host+"/")
			if got := fmt.Sprint(status, " ", body); got != want {
				t.Errorf("%s, %s: %q, want %q", host, scheme, got, want)
			}
		}
	}
}

func TestWhatIsNoRequestForABackend(t *testing.T) {
	at := pod(t, says("served"))
	w := newWorld(t, Limits{}, hostLine("a.test", "a", prefix("/foo"), exact("/none"), exact("/foreign")),
		backendLine("prefix /foo", "a", "", at), backendLine("exact /none", "a", ""),
		backendLine("exact /foreign", "b", "", at))
	for _, c := range []struct {
		method, target string
		status         int
	}{
		{"GET", "/foo", 200}, {"GET", "/bar", 404}, {"GET", "/none", 503}, {"GET", "/foreign", 503},
		{"GET", "http://a.test/foo", 200}, {"CONNECT", "a.test:443", 405}, {"GET", "foo:bar", 400},
		{"OPTIONS", "*", 200},
	} {
		resp := w.raw(c.method + " " + c.target + " HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
		if resp.StatusCode != c.status || (c.status == 503) != (resp.Header.Get("Retry-After") == "1") {
			t.Errorf("%s %s: %s, %v", c.method, c.target, resp.Status, resp.Header)
		}
	}
}

// BenchmarkFind shows that neither many paths of a host nor many elements of a request cost much, and
// what it costs to try many paths that differ in something else.
func BenchmarkFind(b *testing.B) {
	many, alike := &joinapi.IngressHost{}, &joinapi.IngressHost{}
	for i := range 5000 {
		many.Paths = append(many.Paths, prefix(fmt.Sprintf("/api/v1/things/%d", i)))
	}
	for i := range 100 {
		p := prefix("/")
		p.Headers = []joinapi.IngressValue{{Name: "version", Value: fmt.Sprint(i)}}
		alike.Paths = append(alike.Paths, p)
	}
	for _, c := range []struct {
		name, requested string
		in              *joinapi.IngressHost
	}{
		{"5000 paths", "/api/v1/things/4711/parts/1", many},
		{"long path", strings.Repeat("/a", 30000), many},
		{"100 headers", "/x", alike},
	} {
		h := newHost(c.in, nil)
		r := &http.Request{URL: &url.URL{Path: c.requested}, Header: http.Header{"Version": {"99"}}}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h.find(r) //nolint:errcheck // only its cost counts
			}
		})
	}
}
