package edge

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/a4s-io/a4s/server/controlplane/failure"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// TestForeignObjectEndsTheAnswer: what was not sent yet becomes an error, and
// an answer that has begun is cut, so that nobody takes the part for the whole.
func TestForeignObjectEndsTheAnswer(t *testing.T) {
	own := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"default.a"},"data":{"k":"` +
		strings.Repeat("v", wholeUpTo) + `"}}`
	foreign := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"default.b"},` +
		`"data":{"k":"secret"}}`
	list := func(items ...string) string {
		return `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[` + strings.Join(items, ",") + `]}`
	}
	e := New(Options{})
	r, _ := parsePath("/api/v1/configmaps")
	e.find("t1", &r)
	if r.kind.Class != kinds.Tenant {
		t.Fatal("ConfigMaps are not of tenants")
	}
	for _, c := range []struct {
		name, body string
		watch, cut bool
		code       int
	}{
		{"a small list", list(foreign), false, false, http.StatusInternalServerError},
		{"one object", foreign, false, false, http.StatusInternalServerError},
		{"a long list", list(own, own, foreign), false, true, http.StatusOK},
		{"a watch", `{"type":"ADDED","object":` + own + "}\n" + `{"type":"ADDED","object":` + foreign + "}\n", true,
			true, http.StatusOK},
		{"a long list of his own", list(own, own), false, false, http.StatusOK},
	} {
		for _, http2 := range []bool{false, true} {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				r := r
				if c.watch {
					r.verb = "watch"
				}
				next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					for body := c.body; body != ""; { // as a handler would, in pieces
						n := min(len(body), 64*1024)
						if _, err := io.WriteString(w, body[:n]); err != nil {
							return
						}
						body = body[n:]
					}
				})
				if err := handOn(w, req, next, &wire.Projector{View: e.view("a"), Table: e.table},
					&r, nil); err != nil {
					failure.Write(w, err)
				}
			}))
			server.EnableHTTP2 = http2
			server.StartTLS()
			resp, err := server.Client().Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close() //nolint:errcheck // it was read to its end
			server.Close()
			if resp.StatusCode != c.code || (err != nil) != c.cut {
				t.Errorf("%s, HTTP/2 %v: %d, %v", c.name, http2, resp.StatusCode, err)
			}
			if strings.Contains(string(body), "secret") || strings.Contains(string(body), "default.") {
				t.Errorf("%s, HTTP/2 %v: the answer has what it must not", c.name, http2)
			}
		}
	}
}

// TestCompressedAnswersAreWhole: what one answer borrowed for compressing has
// nothing of it when the next one does.
func TestCompressedAnswersAreWhole(t *testing.T) {
	e := New(Options{})
	r, _ := parsePath("/api/v1/configmaps")
	e.find("t1", &r)
	for i, size := range []int{2 * wholeUpTo, gzipFrom + 1, 3 * wholeUpTo, 2 * gzipFrom, wholeUpTo + 1} {
		value := strings.Repeat(string(rune('a'+i)), size)
		next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			// the recorder takes everything
			io.WriteString(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},`+ //nolint:errcheck
				`"items":[{"metadata":{"name":"x","namespace":"default.a"},"data":{"k":"`+value+`"}}]}`)
		})
		w := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(context.WithValue(t.Context(), encodingKey{}, "gzip"), http.MethodGet,
			"/api/v1/configmaps", nil)
		if err := handOn(w, req, next, &wire.Projector{View: e.view("a"), Table: e.table}, &r, nil); err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		body, err := io.ReadAll(z)
		if err != nil || !json.Valid(body) || !strings.HasSuffix(string(body), `{"k":"`+value+`"}}]}`) {
			t.Errorf("%d bytes: %d came, %v", size, len(body), err)
		}
	}
}

// TestAnswersDoNotShareBytes: what one answer borrowed for its translation has
// nothing of it while and after another one of a different tenant uses it.
func TestAnswersDoNotShareBytes(t *testing.T) {
	e := New(Options{})
	r, _ := parsePath("/api/v1/configmaps")
	e.find("t1", &r)
	var clients sync.WaitGroup
	for i := range 8 {
		tenant := string(rune('a' + i))
		clients.Go(func() {
			for n := range 200 {
				value := strings.Repeat(tenant, 1+n*97%wholeUpTo/16)
				next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					// the recorder takes everything
					io.WriteString(w, `{"kind":"ConfigMap","apiVersion":"v1",`+ //nolint:errcheck
						`"metadata":{"name":"x","namespace":"default.`+tenant+`"},"data":{"k":"`+value+`"}}`)
				})
				w := httptest.NewRecorder()
				req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/configmaps", nil)
				if err := handOn(w, req, next, &wire.Projector{View: e.view(tenant), Table: e.table},
					&r, nil); err != nil {
					t.Error(err)
					return
				}
				body := w.Body.String()
				if !strings.Contains(body, `"namespace":"default","tenant":"`+tenant+`"`) ||
					!strings.HasSuffix(body, `},"data":{"k":"`+value+`"}}`) {
					t.Errorf("tenant %s, %d: %.200s", tenant, n, body)
					return
				}
			}
		})
	}
	clients.Wait()
}
