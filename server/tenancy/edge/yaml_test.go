package edge

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// TestYAMLIsMadeOfJSON asks for YAML in ways that clients do. The API server, for which YAML
// is much work, never writes it.
func TestYAMLIsMadeOfJSON(t *testing.T) {
	e := New(Options{})
	r, _ := parsePath("/api/v1/configmaps/x")
	e.find("t1", &r)
	for accept, want := range map[string]struct{ upstream, client string }{
		"application/yaml":      {"application/json;q=1.000", inYAML},
		"application/json":      {"application/json", inJSON},
		"":                      {"", inJSON},
		"application/yaml, */*": {"application/json;q=1.000,*/*;q=1.000", inYAML},
		// Without a wildcard first, as Kubernetes reads it.
		"*/*, application/yaml;q=0.5":                 {"application/json;q=0.500,*/*;q=1.000", inYAML},
		"application/json;q=0.4,application/yaml;q=1": {"application/json;q=1.000,application/json;q=0.400", inYAML},
		"application/yaml;as=Table;v=v1;g=meta.k8s.io": {
			"application/json;as=Table;g=meta.k8s.io;v=v1;q=1.000", inYAML},
		"text/yaml": {"text/yaml", inJSON},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/configmaps/x?a=b", nil)
		req.Header.Set("Accept", accept)
		next := http.HandlerFunc(func(w http.ResponseWriter, got *http.Request) {
			if h := got.Header.Get("Accept"); h != want.upstream {
				t.Errorf("%q came as %q, want %q", accept, h, want.upstream)
			}
			if got.URL.Query().Get("a") != "b" {
				t.Errorf("%q: the query came as %q", accept, got.URL.RawQuery)
			}
			w.Header().Set("Content-Type", inJSON)
			io.WriteString(w, `{"kind":"ConfigMap","apiVersion":"v1",`+ //nolint:errcheck // a recorder
				`"metadata":{"name":"x","namespace":"default.a"},"data":{"k":"1"}}`)
		})
		w := httptest.NewRecorder()
		if err := handOn(w, req, next, &wire.Projector{View: e.view("a"), Table: e.table}, &r, nil); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Metadata struct{ Namespace string }
			Data     map[string]string
		}
		body := w.Body.String()
		if err := yaml.Unmarshal([]byte(body), &got); err != nil || got.Metadata.Namespace != "default" ||
			got.Data["k"] != "1" || strings.HasPrefix(body, "{") != (want.client == inJSON) ||
			w.Header().Get("Content-Type") != want.client {
			t.Errorf("%q gets %s %q, %v", accept, w.Header().Get("Content-Type"), body, err)
		}
	}
}

// TestErrorsInYAML are in JSON where the client asks for a table, as upstream's.
func TestErrorsInYAML(t *testing.T) {
	e := New(Options{})
	r, _ := parsePath("/api/v1/configmaps/x")
	e.find("t1", &r)
	for accept, want := range map[string]string{inYAML: inYAML, inYAML + ";as=Table;v=v1;g=meta.k8s.io": inJSON} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/configmaps/x", nil)
		req.Header.Set("Accept", accept)
		next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", inJSON)
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"kind":"Status","apiVersion":"v1","code":404}`) //nolint:errcheck // a recorder
		})
		w := httptest.NewRecorder()
		err := handOn(w, req, next, &wire.Projector{View: e.view("a"), Table: e.table}, &r, nil)
		if got := w.Header().Get("Content-Type"); err != nil || got != want {
			t.Errorf("%s: %s, %v", accept, got, err)
		}
	}
}

// long writes a list of so many bytes at once, as a server does that has all of it in memory.
func long(bytes int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", inJSON)
		w.Write([]byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},` + //nolint:errcheck // the test
			`"items":[{"metadata":{"name":"x","namespace":"default.a"},"data":{"k":"` +
			strings.Repeat("x", bytes) + `"}}]}`))
	})
}

// TestLongYAMLIsRefused: to make YAML of megabytes, or of many values, takes seconds. Who
// takes JSON, too, gets that, and so does who has changed something.
func TestLongYAMLIsRefused(t *testing.T) {
	e := New(Options{})
	r, _ := parsePath("/api/v1/configmaps")
	e.find("t1", &r)
	values := func(n int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", inJSON)
			io.WriteString(w, `{"kind":"ConfigMap","apiVersion":"v1",`+ //nolint:errcheck // a recorder
				`"metadata":{"name":"x","namespace":"default.a"},"data":[`+strings.Repeat("0,", n)+`0]}`)
		})
	}
	for name, c := range map[string]struct {
		method, accept string
		next           http.Handler
		want           string // the media type, "" for a refusal
	}{
		"half of it":                  {http.MethodGet, inYAML, long(longestYAML / 2), inYAML},
		"many bytes":                  {http.MethodGet, inYAML, long(longestYAML), ""},
		"many bytes, or JSON":         {http.MethodGet, inYAML + ",*/*;q=0.5", long(longestYAML), inJSON},
		"many bytes of what is new":   {http.MethodPost, inYAML, long(longestYAML), inJSON},
		"some values":                 {http.MethodGet, inYAML, values(wire.MaxYAMLValues / 2), inYAML},
		"many values":                 {http.MethodGet, inYAML, values(wire.MaxYAMLValues), ""},
		"many values, or JSON":        {http.MethodGet, inYAML + "," + inJSON, values(wire.MaxYAMLValues), inJSON},
		"many values of what is new":  {http.MethodPatch, inYAML, values(wire.MaxYAMLValues), inJSON},
		"many values of what is gone": {http.MethodDelete, inYAML, values(wire.MaxYAMLValues), inJSON},
	} {
		req := httptest.NewRequestWithContext(t.Context(), c.method, "/api/v1/configmaps", nil)
		req.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		err := handOn(w, req, c.next, &wire.Projector{View: e.view("a"), Table: e.table}, &r, nil)
		if c.want == "" {
			if !apierrors.IsNotAcceptable(err) || !strings.Contains(err.Error(), "ask for application/json") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || w.Header().Get("Content-Type") != c.want ||
			strings.HasPrefix(w.Body.String(), "{") != (c.want == inJSON) {
			t.Errorf("%s: %v, %s %.50s", name, err, w.Header().Get("Content-Type"), w.Body)
		}
	}
}

// stuck is a client that does not read until it is let go.
type stuck struct {
	httptest.ResponseRecorder
	writes, letGo chan struct{}
}

// Write implements http.ResponseWriter.
func (s *stuck) Write(b []byte) (int, error) {
	select {
	case s.writes <- struct{}{}:
		<-s.letGo
	case <-s.letGo:
	}
	return len(b), nil
}

// TestUnreadAnswersAreBounded: what clients do not read is kept in memory, and no more of it
// than the flow may have.
func TestUnreadAnswersAreBounded(t *testing.T) {
	e := New(Options{})
	r, _ := parsePath("/api/v1/configmaps")
	e.find("t1", &r)
	queue := fairqueue.New(fairqueue.Options{Seats: 8, Share: 8, Length: 8, Kept: 11 << 19,
		Busy: func() int { return 0 }})
	method, encoding := http.MethodGet, ""
	serve := func(flow, accept string, bytes int, w http.ResponseWriter) error {
		seat, err := queue.Acquire(t.Context(), flow)
		if err != nil {
			return err
		}
		defer seat.Release()
		ctx := context.WithValue(fairqueue.With(t.Context(), seat), encodingKey{}, encoding)
		req := httptest.NewRequestWithContext(ctx, method, "/api/v1/configmaps", nil)
		req.Header.Set("Accept", accept)
		return handOn(w, req, long(bytes), &wire.Projector{View: e.view("a"), Table: e.table}, &r, nil)
	}
	client := &stuck{ResponseRecorder: *httptest.NewRecorder(), writes: make(chan struct{}),
		letGo: make(chan struct{})}
	done := make(chan error, 2)
	for range 2 {
		go func() { done <- serve("a", inJSON, 5<<19, client) }()
		select {
		case <-client.writes:
		case err := <-done:
			t.Fatalf("a first answer: %v", err)
		}
	}
	for accept, bytes := range map[string]int{inJSON: 2 << 20, inYAML: 1 << 19} {
		for _, encoding = range []string{"", "gzip"} {
			w := httptest.NewRecorder()
			if err := serve("a", accept, bytes, w); !apierrors.IsTooManyRequests(err) ||
				!strings.Contains(err.Error(), "not been read yet") || w.Header().Get("Content-Encoding") != "" {
				t.Errorf("one more in %s, encoding %q: %v, %v", accept, encoding, err, w.Header())
			}
		}
	}
	encoding, method = "", http.MethodPost
	if err := serve("a", inJSON, 2<<20, httptest.NewRecorder()); err != nil {
		t.Errorf("what was made is refused: %v", err)
	}
	method = http.MethodGet
	if err := serve("a", inJSON, 1000, httptest.NewRecorder()); err != nil {
		t.Errorf("a short answer: %v", err)
	}
	if err := serve("b", inJSON, 2<<20, httptest.NewRecorder()); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	close(client.letGo)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := serve("a", inJSON, 2<<20, httptest.NewRecorder()); err != nil {
		t.Errorf("when all was read: %v", err)
	}
}
