package edge

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/failure"
)

// unread is a body that must not be read.
type unread struct{ read bool }

func (u *unread) Read([]byte) (int, error) {
	u.read = true
	return 0, io.EOF
}

// TestWallV7BodiesAreReadLate: nothing is read or translated for a request that is
// refused before a handler asks for its body, and what cannot be translated is
// answered as the API does.
func TestWallV7BodiesAreReadLate(t *testing.T) {
	e := New(Options{})
	r, _ := parsePath("/api/v1/namespaces")
	e.find("t1", &r)
	p := e.Projector("t1")
	sent := &unread{}
	req := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces", sent)
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		failure.Write(w, apierrors.NewForbidden(r.groupResource(), "", nil))
	})
	w := httptest.NewRecorder()
	if err := handOn(w, req, refuse, p, &r, composeBody(req, p, &r)); err != nil ||
		w.Code != http.StatusForbidden || sent.read {
		t.Errorf("%d, %v, the body was read: %v", w.Code, err, sent.read)
	}
	for _, c := range []struct {
		name, method, media, body, want string
		code                            int
	}{
		{"an object", http.MethodPost, "application/json", `{"metadata":{"name":"x"}}`,
			`{"metadata":{"name":"x.t1"}}`, 200},
		{"no media type", http.MethodPost, "", `{"metadata":{"name":"x"}}`, `{"metadata":{"name":"x.t1"}}`, 200},
		{"YAML", http.MethodPost, "application/yaml; charset=utf-8", "metadata: {name: x}",
			`{"metadata":{"name":"x.t1"}}`, 200},
		{"nothing", http.MethodPost, "application/json", "", "", 200},
		{"nothing of another type", http.MethodDelete, "application/cbor", "", "", 200},
		{"a list", http.MethodPost, "application/json",
			`{"kind":"NamespaceList","apiVersion":"v1","items":[]}`, "", 400},
		{"too deep", http.MethodPost, "application/json",
			strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000), "", 400},
		{"too wide", http.MethodPost, "application/json",
			`{"data":{"a":""` + strings.Repeat(`,"b":""`, 10_000) + `}}`, "", 413},
		{"half an object", http.MethodPost, "application/json", `{"metadata":`, "", 400},
		{"too many operations", http.MethodPatch, "application/json-patch+json",
			"[" + strings.Repeat("{},", 20_000) + "{}]", "", 413},
		{"too much YAML", http.MethodPost, "application/yaml", strings.Repeat("a:\n", 1_000_000), "", 413},
		{"too long", http.MethodPost, "application/json", strings.Repeat(" ", maxBody+1), "", 413},
		{"another type", http.MethodPost, "application/cbor", "x", "", 415},
		{"no type", http.MethodPost, "/;/", "x", "", 415},
	} {
		req := httptest.NewRequest(c.method, "/api/v1/namespaces", strings.NewReader(c.body))
		req.Header.Set("Content-Type", c.media)
		composeBody(req, p, &r)
		out, err := io.ReadAll(req.Body)
		code := http.StatusOK
		var withStatus apierrors.APIStatus
		if errors.As(err, &withStatus) {
			code = int(withStatus.Status().Code)
		}
		if string(out) != c.want || code != c.code || (err == nil) != (code == http.StatusOK) {
			t.Errorf("%s: %d %q, %v", c.name, code, out, err)
		}
		if req.Header.Get("Content-Type") != c.media {
			t.Errorf("%s is said to be %s", c.name, req.Header.Get("Content-Type"))
		}
	}
}

// TestNamesAreMadeUpForWhatHasNone: the tenant stands behind the name, however the
// body says that it wants one.
func TestNamesAreMadeUpForWhatHasNone(t *testing.T) {
	e := New(Options{})
	r, _ := parsePath("/api/v1/namespaces")
	e.find("t1", &r)
	for body, want := range map[string]string{
		`{"metadata":{"generateName":"g-"}}`:                                 "g-",
		`{"metadata":{"generat\u0065Name":"g-"}}`:                            "g-",
		`{"met\u0061data":{"generateName":"g-","name":""},"spec":{}}`:        "g-",
		`{"metadata":{"generateName":"a-","generateName":"g-","name":null}}`: "g-",
		`{"metadata":{"generateName":"g-","name":"n"}}`:                      "",
		`{"metadata":{}}`: "",
	} {
		req := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces", strings.NewReader(body))
		b := composeBody(req, e.Projector("t1"), &r)
		out, err := io.ReadAll(req.Body)
		var object struct{ Metadata struct{ Name string } }
		if err == nil {
			err = json.Unmarshal(out, &object)
		}
		if err != nil || b.generates() != (want != "") {
			t.Fatalf("%s: %s, %v", body, out, err)
		}
		if name := object.Metadata.Name; want != "" && (!strings.HasPrefix(name, want) ||
			!strings.HasSuffix(name, ".t1") || len(name) != len(want)+len("12345.t1")) {
			t.Errorf("%s: %s", body, out)
		}
	}
	for _, body := range []string{`{"metadata":{"generateName":"g-"}`, `{"metadata":{"generateName":"g-"}} x`} {
		req := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces", strings.NewReader(body))
		composeBody(req, e.Projector("t1"), &r)
		if out, err := io.ReadAll(req.Body); err == nil {
			t.Errorf("%s: %s", body, out)
		}
	}
}

func TestTenantInBody(t *testing.T) {
	for _, c := range []struct{ media, body, want string }{
		{inJSON, `{"metadata":{"tenant":"a"}}`, "a"},
		{inJSON, `{"metadata":{"t\u0065nant":"a"}}`, "a"},
		{inJSON, `{"metadata":{"tenant":1}}`, ""},
		{inYAML, "metadata:\n  tenant: a\n", "a"},
		{"application/apply-patch+yaml", "metadata:\n  tenant: a\n", "a"},
		{inYAML, "tenant: [", ""},
		{inJSON, `{"spec":{"metadata":{"tenant":"a"}}}`, ""},
		{inJSON, `{"metadata":{"tenant":"b"},"metadata":{"tenant":"a"}}`, "a"},
		{inJSON, strings.Repeat("{", 1_000_000) + "tenant", ""},
		{inJSON, `{"tenant":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) +
			`,"metadata":{"tenant":"a"}}`, "a"},
		{"application/merge-patch+json", `{"metadata":{"tenant":"a"}}`, "a"},
		{"application/json-patch+json", `[{"op":"add","path":"/metadata/tenant","value":"a"}]`, "a"},
		{"application/json-patch+json",
			`[1,{"value":{"tenant":"a"},"op":"add","path":"/metadata"},{"op":"remove","path":"/spec"}]`, "a"},
		{"application/json-patch+json", `[{"op":"add","path":"","value":{"metadata":{"tenant":"a"}}}]`, "a"},
		{"application/json-patch+json", `[{"op":"add","path":"/spec","value":{"metadata":{"tenant":"a"}}}]`, ""},
		{"application/json-patch+json", `{"metadata":{"tenant":"a"}}`, ""},
		{inCBOR,
			encodeCBOR(t, map[string]any{"metadata": map[string]any{"tenant": "a", "name": "x"}, "data": 1}), "a"},
		{"application/apply-patch+cbor", encodeCBOR(t, map[string]any{"metadata": map[string]any{"tenant": 3}}), ""},
		{inCBOR, "tenant", ""},
	} {
		got, err := tenantIn(c.media, []byte(c.body))
		if got != c.want || err != nil && len(c.body) < 1_000_000 {
			t.Errorf("%s %.80s: %q, %v", c.media, c.body, got, err)
		}
	}
}

func encodeCBOR(t *testing.T, of any) string {
	t.Helper()
	b, err := direct.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFullPath(t *testing.T) {
	for short, want := range map[string]string{
		"/api/v1/namespaces/default/configmaps":       "/api/v1/tenants/dup/namespaces/default/configmaps",
		"/api/v1/namespaces/default.dup/configmaps/x": "/api/v1/tenants/dup/namespaces/default/configmaps/x",
		"/apis/apps/v1/namespaces/d/deployments/x":    "/apis/apps/v1/tenants/dup/namespaces/d/deployments/x",
		"/api/v1/persistentvolumes":                   "/api/v1/tenants/dup/persistentvolumes",
	} {
		r := read(httptest.NewRequest(http.MethodPut, short, nil)).resource
		if got := r.fullPath("dup"); got != want {
			t.Errorf("%s: %s, want %s", short, got, want)
		}
		if got := r.composed(space.System, false); got != short {
			t.Errorf("%s: became %s", short, got)
		}
	}
}
