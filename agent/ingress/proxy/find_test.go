package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// conditional are paths with a condition that a request does not have.
func conditional(n int, of joinapi.IngressPath) (paths []joinapi.IngressPath) {
	for i := range n {
		of.Headers = pairs{pair("X-A", fmt.Sprint(i))}
		paths = append(paths, of)
	}
	return paths
}

// TestRoutesThatAreTriedAreBounded: beyond the bound no wider route has the request, as a narrower one may be meant.
func TestRoutesThatAreTriedAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		before []joinapi.IngressPath
		last   joinapi.IngressPath
		err    error
	}{
		"nothing before":      {nil, prefix("/"), nil},
		"one path":            {conditional(mostTried-1, prefix("/a/b")), prefix("/a/b"), nil},
		"one path, too many":  {conditional(mostTried, prefix("/a/b")), prefix("/a/b"), errTooManyRoutes},
		"a wider path":        {conditional(mostTried-1, prefix("/a/b")), prefix("/"), nil},
		"another wider path":  {conditional(mostTried, prefix("/a/b")), prefix("/"), errTooManyRoutes},
		"exact paths":         {conditional(mostTried-1, exact("/a/b")), exact("/a/b"), nil},
		"too many exact":      {conditional(mostTried, exact("/a/b")), exact("/a/b"), errTooManyRoutes},
		"a prefix after them": {conditional(mostTried, exact("/a/b")), prefix("/a/b"), errTooManyRoutes},
		"both": {append(conditional(mostTried/2, exact("/a/b")), conditional(mostTried/2, prefix("/a"))...),
			prefix("/"), errTooManyRoutes},
		"of other paths": {append(conditional(mostTried, prefix("/b")), conditional(mostTried, prefix("/a/b/c"))...),
			prefix("/"), nil},
		"no route": {conditional(mostTried-1, prefix("/a/b")), prefix("/c"), errNoRoute},
	} {
		h := newHost(&joinapi.IngressHost{Paths: append(c.before, c.last)}, nil)
		r := &http.Request{URL: &url.URL{Path: "/a/b"}, Header: http.Header{"X-A": {"none"}}}
		to, err := h.find(r)
		if !errors.Is(err, c.err) || err == nil && to.parts[0].backend != c.last.Backend {
			t.Errorf("%s: %+v, %v", name, to, err)
		}
	}
}

func TestTooManyRoutesAreAnError(t *testing.T) {
	paths := append(conditional(mostTried, prefix("/a")), all("b"))
	w := newWorld(t, Limits{}, hostLine("a.test", "a", paths...), backendLine("b", "a", "", pod(t, says("wider"))))
	c := w.client(nil)
	if status, body := get(t, c, "http://a.test/a"); status != 500 || !strings.HasPrefix(body, "too many matches") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := get(t, c, "http://a.test/b"); status != http.StatusOK || body != "wider" {
		t.Errorf("%d %s", status, body)
	}
}

// TestLookingForARouteCounts: a tenant with too many requests has none compared with its routes.
func TestLookingForARouteCounts(t *testing.T) {
	w := newWorld(t, Limits{PerTenant: 1}, hostLine("a.test", "a", prefix("/a")))
	of := w.tables.shown.Load().tenants["a"]
	of.inFlight.Store(1)
	c := w.client(nil)
	if status, _ := get(t, c, "http://a.test/none"); status != http.StatusServiceUnavailable {
		t.Error(status)
	}
	of.inFlight.Store(0)
	for range 2 { // it gives its place back
		if status, _ := get(t, c, "http://a.test/none"); status != http.StatusNotFound {
			t.Error(status)
		}
	}
}
