package origin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestExternalIPs(t *testing.T) {
	const path = "/api/v1/nodes/n1/status"
	tests := []struct{ name, method, path, body, want string }{
		{"no addresses", "PATCH", path, `{"metadata":{"uid":"1"}}`,
			`{"metadata":{"uid":"1"},"status":{"addresses":[{"address":"198.51.100.1","type":"ExternalIP"}]}}`},
		{"whole list", "PATCH", path,
			`{"status":{"addresses":[{"address":"192.0.2.1","type":"InternalIP"},{"$patch":"replace"}]}}`,
			`{"status":{"addresses":[{"address":"192.0.2.1","type":"InternalIP"},{"$patch":"replace"},` +
				`{"address":"198.51.100.1","type":"ExternalIP"}]}}`},
		{"another node", "PATCH", "/api/v1/nodes/n2/status", `{}`, `{}`},
		{"another method", "PUT", path, `{}`, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			rt := New(Direct(roundTripper(func(r *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(r.Body)
				if err != nil || r.ContentLength != int64(len(body)) {
					t.Errorf("content length %d of %d bytes, %v", r.ContentLength, len(body), err)
				}
				got = string(body)
				return &http.Response{Body: http.NoBody}, nil
			})), Options{NodeName: "n1", ExternalIPs: []string{"198.51.100.1"}})
			req := httptest.NewRequest(tt.method, "https://api.example"+tt.path, strings.NewReader(tt.body))
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
