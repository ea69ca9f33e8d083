package edge

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/a4s-io/a4s/server/controlplane/failure"
)

// sent is what went to watches of tenants.
type sent map[string]int

func (s sent) Sent(tenant string, bytes int) { s[tenant] += bytes }

// TestEventsOfWatchesAreCounted: what is sent to watches of a tenant is, and nothing else:
// not what is sent to the system, nor what refuses a watch.
func TestEventsOfWatchesAreCounted(t *testing.T) {
	const event = `{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1",` +
		`"metadata":{"resourceVersion":"5"}}}` + "\n"
	const status = `{"kind":"Status","apiVersion":"v1","metadata":{}}`
	for _, c := range []struct {
		what, space, path string
		code              int
		body              string
		want              sent
	}{
		{"a watch", "a", "/api/v1/configmaps?watch=1", http.StatusOK, event + event, sent{"a": 2 * len(event)}},
		{"a list", "a", "/api/v1/configmaps", http.StatusOK, status, sent{}},
		{"a watch that is refused", "a", "/api/v1/configmaps?watch=1", http.StatusNotFound, status, sent{}},
		{"a watch of the system", "system", "/api/v1/configmaps?watch=1", http.StatusOK, event, sent{}},
	} {
		counted := sent{}
		e := New(Options{Load: counted})
		next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.code)
			io.WriteString(w, c.body) //nolint:errcheck // the test sees what comes
			w.(http.Flusher).Flush()
		})
		req := httptest.NewRequest(http.MethodGet, c.path, nil)
		r := read(req)
		r.space, r.ofTenant = c.space, c.space
		e.findKind(r)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := e.serveSpace(w, req, next, r); err != nil {
				failure.Write(w, err)
			}
		}))
		resp, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body) //nolint:errcheck // the counts tell
		resp.Body.Close()
		server.Close()
		if resp.StatusCode != c.code || !maps.Equal(counted, c.want) {
			t.Errorf("%s: %d, counted %v, want %v", c.what, resp.StatusCode, counted, c.want)
		}
	}
}
