package proxy

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
)

func full(path string) *joinapi.IngressPathChange { return &joinapi.IngressPathChange{Full: &path} }

func newPrefix(path string) *joinapi.IngressPathChange {
	return &joinapi.IngressPathChange{Prefix: &path}
}

func parsedURL(t testing.TB, target string) *url.URL {
	t.Helper()
	u, err := url.ParseRequestURI(target)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestPrefixChanges(t *testing.T) {
	for _, c := range []struct{ requested, prefix, with, want string }{
		// The table of HTTPPathModifier in the Gateway API.
		{"/foo/bar", "/foo", "/xyz", "/xyz/bar"},
		{"/foo/bar", "/foo", "/xyz/", "/xyz/bar"},
		{"/foo/bar", "/foo/", "/xyz", "/xyz/bar"},
		{"/foo/bar", "/foo/", "/xyz/", "/xyz/bar"},
		{"/foo", "/foo", "/xyz", "/xyz"},
		{"/foo/", "/foo", "/xyz", "/xyz/"},
		{"/foo/bar", "/foo", "", "/bar"},
		{"/foo/", "/foo", "", "/"},
		{"/foo", "/foo", "", "/"},
		{"/foo/", "/foo", "/", "/"},
		{"/foo", "/foo", "/", "/"},
		// More.
		{"/foo/bar/", "/foo", "/", "/bar/"},
		{"/", "/", "/xyz", "/xyz/"},
		{"http://a.test", "/", "/xyz", "/xyz/"},
		{"/a/b", "/", "/xyz", "/xyz/a/b"},
		{"/a/b/c/d", "/a/b", "/x/y/z", "/x/y/z/c/d"},
		{"/foo/bar", "/foo", "xyz", "/xyz/bar"},
		{"/foo/bar", "/foo", "//evil.test//", "/evil.test/bar"},
		// What is escaped stays so.
		{"/foo/a%2Fb%20c", "/foo", "/xyz", "/xyz/a%2Fb%20c"},
		{"/foo/%41%2f", "/foo", "/", "/%41%2f"},
		{"/f%6fo/%25", "/foo", "/xyz", "/xyz/%25"},
		{"/foo%2Fbar%2fx", "/foo", "/xyz", "/xyz/bar%2fx"},
		{"/foo%2F", "/foo", "/xyz", "/xyz/"},
		{"/foo%2F%2Fbar", "/foo", "/", "/bar"},
		{"/foo/%252e%252e/x", "/foo", "/xyz", "/xyz/%252e%252e/x"},
		{"/foo/a%2Fb|\"%41", "/foo", "/xyz", "/xyz/a%2Fb%7C%22%41"},
		{"/foo|%2Fa%2Fb", "/foo|", "/xyz", "/xyz/a%2Fb"},
		{"/foo/[a]%2F!$&'()*+,;=:@-._~", "/foo", "/xyz", "/xyz/[a]%2F!$&'()*+,;=:@-._~"},
		{"/foo/é%2Fé", "/foo", "/xyz", "/xyz/%C3%A9%2F%C3%A9"},
		{"/foo/x|%2F../b%2Fc", "/foo", "/xyz", "/xyz/b%2Fc"},
		{"/foo/bar", "/foo", "/a b%20c%2Fd?#", "/a%20b%20c%2Fd%3F%23/bar"},
		{"/foo/bar", "/foo", "/%zz", "/%25zz/bar"},
		{"/foo/bar", "/foo", "/a\r\nX: 1", "/a%0D%0AX:%201/bar"},
		// Dots and empty elements are no way out.
		{"//foo", "/foo", "/xyz", "/xyz"},
		{"//foo//bar//", "/foo", "/xyz", "/xyz/bar/"},
		{"/x/../foo/bar", "/foo", "/xyz", "/xyz/bar"},
		{"/x/%2e%2E/foo/./bar", "/foo", "/xyz", "/xyz/bar"},
		{"/foo/bar/../../foo/x", "/foo", "/xyz", "/xyz/x"},
		{"/foo/a/..%2fb", "/foo", "/xyz", "/xyz/b"},
		{"/foo/a/..", "/foo", "/xyz", "/xyz"},
		{"/foo/...", "/foo", "/xyz", "/xyz/..."},
		{"/../../foo/.", "/foo", "/xyz", "/xyz"},
		{"/foo//evil.test", "/foo", "", "/evil.test"},
		{"/foo/%2F/evil.test", "/foo", "", "/evil.test"},
	} {
		if got := newPathChange(newPrefix(c.with), depthOf(c.prefix)).of(parsedURL(t, c.requested)); got != c.want {
			t.Errorf("%s with %q in the place of %s is %s, want %s", c.requested, c.with, c.prefix, got, c.want)
		}
	}
}

func TestFullChanges(t *testing.T) {
	for with, want := range map[string]string{
		"/one": "/one", "": "/", "/": "/", "one": "/one", "/a%2Fb": "/a%2Fb", "/a b": "/a%20b", "/a?b#c": "/a%3Fb%23c",
		"/%": "/%25", "/\n": "/%0A", "/ü": "/%C3%BC", "/a/": "/a/",
		"/%4": "/%254", "/%%41%2fx y": "/%25%41%2fx%20y", "/[a]{b}|^`\\\"<>": "/%5Ba%5D%7Bb%7D%7C%5E%60%5C%22%3C%3E",
		"/-._~!$&'()*+,;=:@": "/-._~!$&'()*+,;=:@",
	} {
		if got := newPathChange(full(with), 1).of(parsedURL(t, "/foo/bar%2F")); got != want {
			t.Errorf("%q is %s, want %s", with, got, want)
		}
	}
	for _, none := range []*joinapi.IngressPathChange{nil, {}} {
		if got := newPathChange(none, 1).of(parsedURL(t, "//foo/../%2F")); got != "//foo/../%2F" {
			t.Errorf("without a change: %s", got)
		}
	}
}

// FuzzElements compares what a change has for the elements of a path with what the router has.
func FuzzElements(f *testing.F) {
	for _, path := range []string{"/", "/a//b/../c%2Fd/%2e%2e/", "/..%2F..%2f", "/%2e/%", "/%252e/.../", "/a/%2F"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		u, err := url.ParseRequestURI(sent)
		if err != nil || malformedPath(u) {
			return
		}
		found, slash := elements(sentPath(u))
		joined, err := url.PathUnescape(strings.Join(found, ""))
		if err != nil {
			t.Fatal(err)
		}
		if want := path.Clean("/" + u.Path); "/"+strings.TrimPrefix(joined, "/") != want {
			t.Errorf("%q is %q, and %q for the router", sent, joined, want)
		}
		if (slash != "") != strings.HasSuffix(u.Path, "/") {
			t.Errorf("%q ends with %q", sent, slash)
		}
	})
}

func malformedPath(u *url.URL) bool {
	status, _ := malformed(&http.Request{URL: u})
	return status != 0 || u.Path == ""
}

func TestRewrite(t *testing.T) {
	seen := make(chan *http.Request, 1)
	at := pod(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r })
	with := func(path string, r joinapi.IngressRewrite) joinapi.IngressPath {
		return joinapi.IngressPath{Path: path, Backend: "b", Filters: &joinapi.IngressFilters{Rewrite: &r}}
	}
	w := newWorld(t, Limits{}, backendLine("b", "a", "", at), hostLine("a.test", "a",
		with("/prefix", joinapi.IngressRewrite{Path: newPrefix("/new")}),
		with("/full", joinapi.IngressRewrite{Path: full("/all of it")}),
		with("/host", joinapi.IngressRewrite{Host: "b.test"}),
		with("/evil", joinapi.IngressRewrite{Host: "b.test\r\nX: 1"}),
		with("/port", joinapi.IngressRewrite{Host: "b.test:80"})))
	for _, c := range []struct{ sent, uri, host string }{
		{"/prefix/a%2Fb?q=/prefix&%zz", "/new/a%2Fb?q=/prefix&%zz", "a.test:80"},
		{"/prefix", "/new", "a.test:80"},
		{"/x/../prefix//../prefix/y", "/new/y", "a.test:80"},
		{"/full/x?q", "/all%20of%20it?q", "a.test:80"},
		{"/host//x", "/host//x", "b.test"},
		{"/x/../host//x", "/host/x", "b.test"},
		{"/evil", "/evil", "a.test:80"},
		{"/port", "/port", "a.test:80"},
	} {
		w.raw("GET " + c.sent + " HTTP/1.1\r\nHost: a.test:80\r\n\r\n")
		r := <-seen
		if r.RequestURI != c.uri || r.Host != c.host || r.Header.Get("X-Forwarded-Host") != "a.test:80" {
			t.Errorf("%s: the backend got %s of %s, %v", c.sent, r.RequestURI, r.Host, r.Header)
		}
	}
	if resp := w.raw("GET /prefix/../new HTTP/1.1\r\nHost: a.test\r\n\r\n"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("what is not below the prefix: %s", resp.Status)
	}
}

// TestWhatIsForwardedIsWhatWasMatched: no dots lead a backend out of the path whose filters a request had.
func TestWhatIsForwardedIsWhatWasMatched(t *testing.T) {
	seen := make(chan *http.Request, 1)
	at := pod(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r })
	of := func(path string) joinapi.IngressPath {
		return joinapi.IngressPath{Path: path, Backend: "b", Filters: &joinapi.IngressFilters{
			Request: &joinapi.IngressHeaders{Set: pairs{pair("X-Path", path)}}}}
	}
	w := newWorld(t, Limits{}, backendLine("b", "a", "", at), hostLine("a.test", "a", of("/admin"), of("/")))
	for _, c := range []struct{ sent, uri, path string }{
		{"/admin/x", "/admin/x", "/admin"},
		{"/admin/../x", "/x", "/"},
		{"/admin//../secret", "/secret", "/"},
		{"/x/../admin", "/admin", "/admin"},
		{"/x/%2e%2E/admin?q=/../%zz", "/admin?q=/../%zz", "/admin"},
		{"/x/.%2e/admin/", "/admin/", "/admin"},
		{"/%2e/admin", "/admin", "/admin"},
		{"/admin/..%2Fsecret", "/secret", "/"},
		{"/admin%2f..%2fsecret", "/secret", "/"},
		{"/x%2f..%2fadmin", "/admin", "/admin"},
		{"/x/..%2F..%2F..%2Fadmin%2Fy", "/admin%2Fy", "/admin"},
		{"/admin/..", "/", "/"},
		{"/admin/../", "/", "/"},
		{"/admin/x/..", "/admin", "/admin"},
		{"/admin/x/../", "/admin/", "/admin"},
		{"/admin/.", "/admin", "/admin"},
		{"/../a//b%2F%41/./c", "/a/b%2F%41/c", "/"},
		// Byte for byte.
		{"//a//b%2f%41/%2e.../...", "//a//b%2f%41/%2e.../...", "/"},
		{"/a/..;/%252e%252e/.b/c.", "/a/..;/%252e%252e/.b/c.", "/"},
		{"/admin%2F%2Fx/", "/admin%2F%2Fx/", "/admin"},
		{"/[a]%2f!$&'()*+,;=:@-._~", "/[a]%2f!$&'()*+,;=:@-._~", "/"},
		{"http://a.test", "/", "/"},
		// Bytes that net/http sends escaped only. The escapes of the client stay.
		{"/a%2Fb|%41\"", "/a%2Fb%7C%41%22", "/"},
		{"/x/../a%2Fb|", "/a%2Fb%7C", "/"},
	} {
		w.raw("GET " + c.sent + " HTTP/1.1\r\nHost: a.test\r\n\r\n")
		if r := <-seen; r.RequestURI != c.uri || r.Header.Get("X-Path") != c.path {
			t.Errorf("%s: the backend got %s, by %s", c.sent, r.RequestURI, r.Header.Get("X-Path"))
		}
	}
}

func TestRewriteOfUpgrades(t *testing.T) {
	path := joinapi.IngressPath{Path: "/", Backend: "b", Filters: &joinapi.IngressFilters{
		Rewrite: &joinapi.IngressRewrite{Host: "b.test", Path: full("/socket")}}}
	w := newWorld(t, Limits{}, hostLine("a.test", "a", path), backendLine("b", "a", "",
		pod(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/socket" && r.Host == "b.test" {
				echoUpgrade(w, r)
			}
		})))
	conn := w.dial()
	in := upgrade(t, conn, "websocket", http.StatusSwitchingProtocols)
	fmt.Fprint(conn, "ping\n")
	if line, err := bufio.NewReader(in).ReadString('\n'); line != "ping\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
}
