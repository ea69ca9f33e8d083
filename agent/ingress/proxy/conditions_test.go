package proxy

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
)

type pairs = []joinapi.IngressValue

func pair(name, value string) joinapi.IngressValue {
	return joinapi.IngressValue{Name: name, Value: value}
}

func TestConditions(t *testing.T) {
	for name, c := range map[string]struct {
		path joinapi.IngressPath
		r    http.Request
		want bool
	}{
		"a method":           {joinapi.IngressPath{Method: "POST"}, http.Request{Method: "POST"}, true},
		"another method":     {joinapi.IngressPath{Method: "GET"}, http.Request{Method: "HEAD"}, false},
		"http":               {joinapi.IngressPath{Scheme: "http"}, http.Request{}, true},
		"http, with TLS":     {joinapi.IngressPath{Scheme: "http"}, http.Request{TLS: &tls.ConnectionState{}}, false},
		"https":              {joinapi.IngressPath{Scheme: "https"}, http.Request{TLS: &tls.ConnectionState{}}, true},
		"https, without TLS": {joinapi.IngressPath{Scheme: "https"}, http.Request{}, false},
		"a scheme of nobody": {joinapi.IngressPath{Scheme: "ws"}, http.Request{}, false},
		"a method, no scheme": {joinapi.IngressPath{Method: "GET", Scheme: "https"},
			http.Request{Method: "GET"}, false},
	} {
		if got := newConditions(&c.path).match(&asked{Request: &c.r}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if newConditions(&joinapi.IngressPath{Path: "/", Exact: true}) != nil {
		t.Error("there are conditions where none were told")
	}
}

func TestHeadersOfConditions(t *testing.T) {
	for name, c := range map[string]struct {
		told pairs
		sent http.Header
		want bool
	}{
		"one":                      {pairs{pair("a-b", "1")}, http.Header{"A-B": {"1"}}, true},
		"whatever its case":        {pairs{pair("A-b", "1")}, http.Header{"A-B": {"1"}}, true},
		"not that of the value":    {pairs{pair("A", "x")}, http.Header{"A": {"X"}}, false},
		"a part of the value":      {pairs{pair("A", "x")}, http.Header{"A": {"xy"}}, false},
		"more than the value":      {pairs{pair("A", "xy")}, http.Header{"A": {"x"}}, false},
		"absent":                   {pairs{pair("A", "")}, http.Header{}, false},
		"empty":                    {pairs{pair("A", "")}, http.Header{"A": {""}}, true},
		"two values":               {pairs{pair("A", "1,2")}, http.Header{"A": {"1", "2"}}, true},
		"one with a comma":         {pairs{pair("A", "1,2")}, http.Header{"A": {"1,2"}}, true},
		"the first of two values":  {pairs{pair("A", "1")}, http.Header{"A": {"1", "2"}}, false},
		"two values without comma": {pairs{pair("A", "12")}, http.Header{"A": {"1", "2"}}, false},
		"two empty values":         {pairs{pair("A", ",")}, http.Header{"A": {"", ""}}, true},
		"both": {pairs{pair("A", "1"), pair("B", "2")},
			http.Header{"A": {"1"}, "B": {"2"}}, true},
		"one of two":                {pairs{pair("A", "1"), pair("B", "2")}, http.Header{"A": {"1"}}, false},
		"the first of a name":       {pairs{pair("A", "1"), pair("a", "2")}, http.Header{"A": {"1"}}, true},
		"not the second of a name":  {pairs{pair("A", "1"), pair("a", "2")}, http.Header{"A": {"2"}}, false},
		"the host":                  {pairs{pair("host", "a.test:80")}, http.Header{}, true},
		"another host":              {pairs{pair("host", "b.test")}, http.Header{"Host": {"b.test"}}, false},
		"what anybody can make up":  {pairs{pair("x-real-ip", "1")}, http.Header{"X-Real-Ip": {"1"}}, false},
		"what backends take for it": {pairs{pair("x_real_ip", "1")}, http.Header{"X_real_ip": {"1"}}, false},
	} {
		a := asked{Request: &http.Request{Host: "a.test:80", Header: c.sent}}
		if got := newConditions(&joinapi.IngressPath{Headers: c.told}).match(&a); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestQueriesOfConditions(t *testing.T) {
	for name, c := range map[string]struct {
		told pairs
		sent string
		want bool
	}{
		"one":                   {pairs{pair("a", "1")}, "b=2&a=1", true},
		"not its case":          {pairs{pair("A", "1")}, "a=1", false},
		"decoded":               {pairs{pair("a b", "ü=&")}, "a+b=%C3%BC%3d%26", true},
		"absent":                {pairs{pair("a", "")}, "b", false},
		"empty":                 {pairs{pair("a", "")}, "a", true},
		"the first value":       {pairs{pair("a", "1")}, "a=1&a=2", true},
		"the second value":      {pairs{pair("a", "2")}, "a=1&a=2", false},
		"one of two":            {pairs{pair("a", "1"), pair("b", "2")}, "a=1", false},
		"two":                   {pairs{pair("a", "1"), pair("b", "2")}, "a=1&b=2", true},
		"the first of a name":   {pairs{pair("a", "1"), pair("a", "2")}, "a=1", true},
		"no query":              {pairs{pair("a", "1")}, "", false},
		"what does not parse":   {pairs{pair("a", "%zz")}, "a=%zz", false},
		"what parses beside it": {pairs{pair("a", "1")}, "b=%zz&a=1", true},
		"what no longer parses": {pairs{pair("a", "1")}, "a=1;b=2", false},
	} {
		a := asked{Request: &http.Request{URL: &url.URL{RawQuery: c.sent}}}
		if got := newConditions(&joinapi.IngressPath{Query: c.told}).match(&a); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAQueryIsParsedOnceAndOnlyIfAPathAsks(t *testing.T) {
	a := asked{Request: &http.Request{Method: "GET", URL: &url.URL{RawQuery: "a=1"}}}
	query := pairs{pair("a", "1")}
	newConditions(&joinapi.IngressPath{Method: "PUT", Query: query}).match(&a)
	newConditions(&joinapi.IngressPath{Method: "GET"}).match(&a)
	if a.parsed {
		t.Error("it is parsed though no path asks")
	}
	for range 2 {
		if !newConditions(&joinapi.IngressPath{Query: query}).match(&a) {
			t.Error("no match")
		}
		a.URL.RawQuery = "a=2" // would be seen
	}
}

// onlyFor is a path with a condition.
func onlyFor(p joinapi.IngressPath, method string) joinapi.IngressPath {
	p.Method, p.Backend = method, method+" "+p.Backend
	return p
}

func TestPathsThatDifferInMore(t *testing.T) {
	h := newHost(&joinapi.IngressHost{Paths: []joinapi.IngressPath{
		onlyFor(exact("/a/b"), "PUT"), onlyFor(prefix("/a/b"), "PUT"), onlyFor(prefix("/a/b"), "POST"),
		onlyFor(exact("/a"), "PUT"), exact("/a"), onlyFor(exact("/a"), "POST"),
		onlyFor(prefix("/a"), "GET"), onlyFor(prefix("/a/"), "GET"), prefix("/a"), prefix("/a"),
		onlyFor(prefix("/"), "HEAD"), onlyFor(exact("/"), "PUT"),
	}}, nil)
	for asked, want := range map[string]string{
		"PUT /a/b": "PUT exact /a/b", "POST /a/b": "POST prefix /a/b", "GET /a/b": "GET prefix /a",
		"HEAD /a/b": "prefix /a", "PUT /a/b/c": "PUT prefix /a/b", "PUT /a/b/": "PUT prefix /a/b",
		"PUT /a": "PUT exact /a", "POST /a": "exact /a", "POST /a/": "prefix /a", "GET /a/x/y": "GET prefix /a",
		"HEAD /b/c": "HEAD prefix /", "GET /b": "", "PUT /": "PUT exact /", "HEAD /": "HEAD prefix /", "GET /": "",
	} {
		method, path, _ := strings.Cut(asked, " ")
		if got := found(h, &http.Request{Method: method, URL: &url.URL{Path: path}}); got != want {
			t.Errorf("%s has %q, want %q", asked, got, want)
		}
	}
}

func TestWhatCanNeverMatchIsNotKept(t *testing.T) {
	told := &joinapi.IngressHost{}
	for i := range 100 {
		told.Paths = append(told.Paths, prefix("/a"), exact("/a"), onlyFor(prefix("/a"), fmt.Sprint(i)))
	}
	h := newHost(told, nil)
	if n, m := len(h.exact["/a"]), len(h.prefixes.children["a"].routes); n != 1 || m != 1 {
		t.Errorf("%d exact, %d prefixes", n, m)
	}
}

func TestConditionsOfRequests(t *testing.T) {
	w := newWorld(t, Limits{}, hostLine("a.test", "a",
		joinapi.IngressPath{Path: "/", Method: "POST", Headers: pairs{pair("x-a", "1,2")},
			Query: pairs{pair("q", "v")}, Scheme: "https", Backend: "all"},
		joinapi.IngressPath{Path: "/", Scheme: "http", Query: pairs{pair("q", "v")}, Backend: "some"},
		all("rest")),
		backendLine("all", "a", "", pod(t, says("all"))), backendLine("some", "a", "", pod(t, says("some"))),
		backendLine("rest", "a", "", pod(t, says("rest"))))
	for _, set := range []func(*http.Transport){nil, h2OverTLS} {
		r := request(t, http.MethodPost, "https://a.test/?q=v", nil)
		r.Header["x-a"] = []string{"1", "2"}
		if _, body := do(t, w.client(set), r); body != "all" {
			t.Error(body)
		}
	}
	for target, want := range map[string]string{
		"http://a.test/?q=v": "some", "https://a.test/?q=v": "rest", "http://a.test/?q=v&%zz": "some",
		"http://a.test/?q=v;x": "rest",
	} {
		if _, body := get(t, w.client(nil), target); body != want {
			t.Errorf("%s: %s, want %s", target, body, want)
		}
	}
}
