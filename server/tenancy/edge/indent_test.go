package edge

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/server/tenancy/edge/proxied"
	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// TestLineBreaksAreMadeHere: the API server, which has to have a whole list in memory for line
// breaks, is never asked for them. A client that asks gets them as upstream makes them.
func TestLineBreaksAreMadeHere(t *testing.T) {
	e := New(Options{})
	r, _ := parsePath("/api/v1/configmaps/x")
	e.find("t1", &r)
	const native = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"data":{"k":"<1>","l":""}}`
	compact := strings.Replace(native, `"name":"x"`, `"name":"x","tenant":"a"`, 1)
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(compact), "", "  "); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, query, agent, accept string
		indent                     bool
		asked                      string // Accept, as the API server sees it
	}{
		{what: "nothing", asked: inJSON},
		{what: "the query", query: "pretty=true", indent: true, asked: inJSON},
		{what: "the query, twice", query: "pretty=0&pretty=1", asked: inJSON},
		{what: "the query, no truth", query: "pretty=x", agent: "curl/8", asked: inJSON},
		{what: "an empty query", query: "pretty=", agent: "curl/8", indent: true, asked: inJSON},
		{what: "curl", agent: "curl/8.5.0", indent: true, asked: inJSON},
		{what: "a browser", agent: "Mozilla/5.0 (X11)", indent: true, asked: inJSON},
		{what: "curl, which asks for none", query: "pretty=false", agent: "curl/8.5.0", asked: inJSON},
		{what: "kubectl", agent: "kubectl/v1.37.2", asked: inJSON},
		{what: "the media type", accept: inJSON + ";pretty=1", indent: true, asked: inJSON + ";q=1.000"},
		{what: "the media type, no truth", accept: inJSON + ";pretty=0", asked: inJSON + ";pretty=0"},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/configmaps/x?"+c.query, nil)
		req.Header.Set("User-Agent", c.agent)
		if c.accept == "" {
			c.accept = inJSON
		}
		req.Header.Set("Accept", c.accept)
		next := http.HandlerFunc(func(w http.ResponseWriter, got *http.Request) {
			if asksForIndent(got) || got.Header.Get("Accept") != c.asked {
				t.Errorf("%s came as %q, %q", c.what, got.URL.RawQuery, got.Header.Get("Accept"))
			}
			w.Header().Set("Content-Type", inJSON)
			io.WriteString(w, native+"\n") //nolint:errcheck // a recorder
		})
		w := httptest.NewRecorder()
		if err := handOn(w, req, next, &wire.Projector{View: e.view("a"), Table: e.table}, &r, nil); err != nil {
			t.Fatal(err)
		}
		want := compact + "\n"
		if c.indent {
			want = pretty.String()
		}
		if got := w.Body.String(); got != want {
			t.Errorf("%s gets %q, want %q", c.what, got, want)
		}
	}
}

// TestLongAnswersHaveNoLineBreaks: they are written as they are read.
func TestLongAnswersHaveNoLineBreaks(t *testing.T) {
	e := New(Options{})
	r, _ := parsePath("/api/v1/configmaps")
	e.find("t1", &r)
	for bytes, want := range map[int]bool{longestIndented / 2: true, longestIndented: false} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/configmaps?pretty=1", nil)
		w := httptest.NewRecorder()
		err := handOn(w, req, long(bytes), &wire.Projector{View: e.view("a"), Table: e.table}, &r, nil)
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Items) != 1 {
			t.Errorf("%d bytes: %d items, %v", bytes, len(list.Items), err)
		}
		if got := strings.Contains(w.Body.String(), "\n  "); got != want {
			t.Errorf("%d bytes have line breaks: %v", bytes, got)
		}
	}
}

// TestDeepAnswersHaveNoLineBreaks: each of many small values deep inside would get hundreds of spaces.
func TestDeepAnswersHaveNoLineBreaks(t *testing.T) {
	for depth, want := range map[int]bool{2: true, 190: false} {
		deep := []byte(strings.Repeat("[", depth) + strings.Repeat("0,", 100_000) + "0" + strings.Repeat("]", depth))
		got, err := indented(deep)
		if err != nil || bytes.Contains(got, []byte("\n")) != want || len(got) > 2*longestIndented {
			t.Errorf("depth %d: %d bytes of %d, %v", depth, len(got), len(deep), err)
		}
	}
	for _, text := range []string{`{}`, `[]`, `{"a":[],"b":{},"c\\":"{[,:\"","d":[1,{"e":null}]}`, `""`, `0`} {
		got, err := indented([]byte(text))
		if empty := strings.Count(text, "[]") + strings.Count(text, "{}"); err != nil ||
			len(got) > indentedLength([]byte(text)) || empty == 0 && len(got) != indentedLength([]byte(text)) {
			t.Errorf("%s: %q of %d, counted %d, %v", text, got, len(got), indentedLength([]byte(text)), err)
		}
	}
}

// TestProxiedServersAreAskedForLineBreaks: their answers pass as they are.
func TestProxiedServersAreAskedForLineBreaks(t *testing.T) {
	e := New(Options{})
	r, _ := parsePath("/api/v1/configmaps/x")
	e.find("t1", &r)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/configmaps/x?pretty=1", nil)
	req = req.WithContext(proxied.With(req.Context(), ""))
	next := http.HandlerFunc(func(_ http.ResponseWriter, got *http.Request) {
		if !asksForIndent(got) {
			t.Errorf("it is asked with %q", got.URL.RawQuery)
		}
	})
	if err := handOn(httptest.NewRecorder(), req, next, &wire.Projector{View: e.view("a"), Table: e.table}, &r,
		nil); err != nil {
		t.Fatal(err)
	}
}
