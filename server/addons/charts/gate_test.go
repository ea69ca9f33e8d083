package charts

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"k8s.io/client-go/rest"
)

// TestGate: a confined process reaches the space of its tenant, as whom the server says, and nothing else.
func TestGate(t *testing.T) {
	asked := make(chan *http.Request, 1)
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r }))
	defer api.Close()
	a, err := newAccess(inSpace(&rest.Config{Host: api.URL, BearerToken: "of-the-server"}, "t1"), tls.Certificate{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	g, err := newGate(a)
	if err != nil {
		t.Fatal(err)
	}
	dial := g.dialer(func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed })
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dial(ctx, gateNetwork, "")
	}}
	defer transport.CloseIdleConnections()
	as := func(method, path string) (int, string) {
		t.Helper()
		// As a hostile program would write it.
		req := &http.Request{Method: method, URL: &url.URL{Scheme: "http", Host: "t2", Opaque: path},
			Header: http.Header{"Accept": {"application/json"}, "Authorization": {"Bearer mine"},
				"Impersonate-User": {"admin"}, "Impersonate-Group": {"system:masters"},
				"Impersonate-Extra-A4s.io%2ftenant": {"t2"}, "X-Remote-User": {"admin"}}}
		resp, err := transport.RoundTrip(req.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it was read to its end
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	ask := func(path string) (int, string) { return as(http.MethodGet, path) }
	for _, path := range []string{"/api/v1/namespaces/default/configmaps", "/apis", "/version",
		"/apis/apps/v1/deployments?watch=true"} {
		if code, body := ask(path); code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, code, body)
		}
		got := <-asked
		if want := "/tenants/t1" + path; got.URL.RequestURI() != want {
			t.Errorf("%s was asked for, want %s", got.URL.RequestURI(), want)
		}
		for name, values := range got.Header {
			if !passed.Has(name) {
				t.Errorf("%s: %q is passed on", name, values)
			}
		}
		if accept := got.Header.Get("Accept"); accept != "application/json" {
			t.Errorf("Accept: %q", accept)
		}
	}
	for _, path := range []string{"/api/../../t2/api", "/api/%2e%2e/%2e%2e/t2/api", "/api//v1", "/api/./v1", "/", "",
		"/metrics", "/tenants/t2/api", "/api/v1/namespaces/x%2fy", "/../api", "/apis/..", "//api"} {
		if code, _ := ask(path); code != http.StatusForbidden && code != http.StatusBadRequest {
			t.Errorf("%q: %d", path, code)
		}
		select {
		case got := <-asked:
			t.Errorf("%q was passed on as %s", path, got.URL)
		default:
		}
	}
	for _, method := range []string{http.MethodConnect, http.MethodOptions, http.MethodTrace, "X"} {
		if code, _ := as(method, "/api/v1"); code != http.StatusForbidden && code != http.StatusBadRequest {
			t.Errorf("%s: %d", method, code)
		}
	}
	for network, want := range map[string]error{"tcp": net.ErrClosed, "udp": net.UnknownNetworkError("udp")} {
		if _, err := dial(t.Context(), network, "a:80"); !errors.Is(err, want) {
			t.Errorf("%s: %v", network, err)
		}
	}
	g.close()
	if _, err := dial(t.Context(), gateNetwork, ""); err == nil {
		t.Error("a gate that is closed makes connections")
	}
}
