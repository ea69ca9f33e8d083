package charts

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestGate: a confined process reaches the space of its tenant, as whom the server says, and nothing else.
func TestGate(t *testing.T) {
	asked := make(chan *http.Request, 1)
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r }))
	defer api.Close()
	g, err := newGate(forTenant(&rest.Config{Host: api.URL, BearerToken: "of-the-server"}, "t1"))
	if err != nil {
		t.Fatal(err)
	}
	dial := g.dialer(func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed })
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dial(ctx, gateNetwork, "")
	}}
	defer transport.CloseIdleConnections()
	ask := func(path string) (int, string) {
		t.Helper()
		// As a hostile program would write it.
		req := &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: "t2", Opaque: path},
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
	for _, path := range []string{"/api/v1/namespaces/default/configmaps", "/apis", "/version",
		"/apis/apps/v1/deployments?watch=true"} {
		if code, body := ask(path); code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, code, body)
		}
		got := <-asked
		if want := "/tenants/t1" + path; got.URL.RequestURI() != want {
			t.Errorf("%s was asked for, want %s", got.URL.RequestURI(), want)
		}
		for name, want := range map[string]string{"Authorization": "Bearer of-the-server", "Impersonate-User": Name,
			"Impersonate-Group": "system:masters", "Accept": "application/json", "X-Remote-User": "",
			"X-Forwarded-For": ""} {
			if is := strings.Join(got.Header[name], ","); is != want {
				t.Errorf("%s: %q, want %q", name, is, want)
			}
		}
		for name, values := range got.Header {
			if strings.HasPrefix(name, "Impersonate-Extra-") && strings.Join(values, ",") != "t1" {
				t.Errorf("%s: %q", name, values)
			}
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
