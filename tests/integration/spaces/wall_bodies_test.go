package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/nstest"
)

// atOnce is within what a request of any body is answered, on a busy machine. What is not linear takes minutes.
const atOnce = time.Minute

// nestedBody is levels of lists and Tables, whose kinds come last.
func nestedBody(levels int, forms ...string) string {
	body := `{"metadata":{"name":"x"}}`
	for level := range levels {
		if forms[level%len(forms)] == "List" {
			body = `{"items":[` + body + `],"kind":"List","apiVersion":"v1"}`
		} else {
			body = `{"rows":[{"object":` + body + `}],"kind":"Table","apiVersion":"meta.k8s.io/v1"}`
		}
	}
	return body
}

// within sends a request and tells the code; it fails when the answer takes long.
func (s *space) within(t *testing.T, what, method, path, media, body string) (int, string) {
	t.Helper()
	begin := time.Now()
	code, answer := do(t, s.config, method, path, body, []string{"Content-Type: " + media})
	if took := time.Since(begin); took > atOnce {
		t.Errorf("%s took %v", what, took)
	}
	return code, answer
}

// TestWallV7Bodies: work for a request is linear in its body, and is done for
// those who may ask for it.
func TestWallV7Bodies(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	nobody := p.as(t, "a", p.user(t, "nobody", []string{"tenant:a"}, nil))
	t.Run("TestWallV7NestedBodies", func(t *testing.T) { testWallV7NestedBodies(t, a, b) })
	t.Run("TestWallV7UnauthorizedBodiesAreNotTranslated", func(t *testing.T) { testWallV7Unauthorized(t, nobody, b) })
	t.Run("TestWallV7Patches", func(t *testing.T) { testWallV7Patches(t, a) })
	t.Run("TestWallV7YAML", func(t *testing.T) { testWallV7YAML(t, a) })
	t.Run("TestWallV7ManyMembers", func(t *testing.T) { testWallV7ManyMembers(t, a) })
	t.Run("ordinary bodies", func(t *testing.T) { testOrdinaryBodies(t, a) })
}

func testWallV7NestedBodies(t *testing.T, a, b *space) {
	bodies := []string{
		nestedBody(40, "List"), nestedBody(40, "Table"), nestedBody(40, "List", "Table"),
		nestedBody(40, "Table", "Table", "List"),
		nestedBody(1, "List"), nestedBody(1, "Table"), strings.Repeat(`{"a":`, 100_000),
		strings.Repeat("[", 1_000_000),
	}
	ctx, stop := context.WithCancel(t.Context())
	others := make(chan error, 1)
	go func() { // meanwhile others are served
		var slowest time.Duration
		for ctx.Err() == nil {
			begin := time.Now()
			if _, err := b.client.CoreV1().ConfigMaps("default").
				List(ctx, metav1.ListOptions{}); err != nil && ctx.Err() == nil {
				others <- err
				return
			}
			slowest = max(slowest, time.Since(begin))
		}
		if slowest > atOnce {
			others <- fmt.Errorf("another tenant waited for %v", slowest)
		}
		close(others)
	}()
	for _, path := range []string{"/api/v1/namespaces/default/configmaps", "/api/v1/namespaces",
		"/api/v1/tenants/a/namespaces/default/pods", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"} {
		for _, body := range bodies {
			if code, answer := a.within(t, fmt.Sprintf("%.40s", body), http.MethodPost, path, "application/json",
				body); code != http.StatusBadRequest {
				t.Errorf("%s, %.40s: %d %s", path, body, code, answer)
			}
		}
	}
	stop()
	if err := <-others; err != nil {
		t.Error(err)
	}
}

func testWallV7Unauthorized(t *testing.T, nobody, b *space) {
	huge := nestedBody(2_000, "List", "Table")
	for _, s := range []*space{nobody, b} { // another tenant's admin has no rights in a
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			for media, body := range map[string]string{
				"application/json": huge, "application/yaml": strings.Repeat("- a\n", 500_000),
				"application/json-patch+json":         "not a patch",
				"application/apply-patch+yaml":        strings.Repeat("[", 1_000_000),
				"application/vnd.kubernetes.protobuf": "not protobuf",
			} {
				path := "/api/v1/tenants/a/namespaces/default/configmaps"
				if method != http.MethodPost {
					path += "/x"
				}
				if code, answer := s.within(t, media, method, path, media, body); code != http.StatusForbidden {
					t.Errorf("%s of %s: %d %s", method, media, code, answer)
				}
			}
		}
	}
}

func testWallV7Patches(t *testing.T, a *space) {
	const path, media = "/api/v1/namespaces/default/configmaps/patched", "application/json-patch+json"
	if _, err := a.client.CoreV1().ConfigMaps("default").
		Create(t.Context(), configMap("patched"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(n int, op string) string { return "[" + strings.Repeat(op+",", n-1) + op + "]" }
	for _, c := range []struct {
		name, body string
		codes      []int
	}{
		{"one operation", `[{"op":"add","path":"/data","value":{"a":"b"}}]`, []int{200}},
		{"9,900 operations far below",
			patch(9_900, `{"op":"test","path":"`+strings.Repeat("/a", 125)+`","value":"x"}`), []int{422}},
		{"9,900 operations", patch(9_900, `{"op":"add","path":"/data/a","value":"x"}`), []int{200}},
		{"10,001 operations", patch(10_001, `{"op":"add","path":"/data/a","value":"x"}`), []int{413}},
		{"one long path", `[{"op":"test","path":"` + strings.Repeat("/a", 1_400_000) + `","value":"x"}]`, []int{400}},
		{"one long value far below", `[{"op":"test","path":"` + strings.Repeat("/a", 1000) + `","value":"` +
			strings.Repeat("x", 2_500_000) + `"}]`, []int{422}},
	} {
		if code, answer := a.within(t, c.name, http.MethodPatch, path, media,
			c.body); !slices.Contains(c.codes, code) {
			t.Errorf("%s: %d %.300s", c.name, code, answer)
		}
	}
}

func testWallV7YAML(t *testing.T, a *space) {
	var directives, lines strings.Builder
	for i := 0; directives.Len() < 2_500_000; i++ {
		fmt.Fprintf(&directives, "%%TAG !a%d! b\n", i)
	}
	for i := 0; lines.Len() < 2_500_000; i++ {
		fmt.Fprintf(&lines, "k%d: v\n", i)
	}
	for name, c := range map[string]struct {
		body string
		code int
	}{
		"directives":       {directives.String() + "---\na: b\n", 413},
		"lines":            {lines.String(), 413},
		"braces in braces": {strings.Repeat("{a: ", 9000) + strings.Repeat("}", 9000), 400},
		"aliases": {"a: &a " + strings.Repeat("x", 10_000) + "\nb: [" +
			strings.Repeat("*a,", 30_000) + "]", 413},
		"as much as is taken": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\nx:\n" +
			strings.Repeat("-\n"+strings.Repeat(" - b: c\n", 9000), 16), 0},
		"an alias that is not": {"a: *b", 400},
	} {
		code, answer := a.within(t, name, http.MethodPost, "/api/v1/namespaces/default/configmaps",
			"application/yaml", c.body)
		if c.code != 0 && code != c.code {
			t.Errorf("%s: %d %.300s", name, code, answer)
		}
		code, answer = a.within(t, name+", applied", http.MethodPatch,
			"/api/v1/namespaces/default/configmaps/x?fieldManager=t", "application/apply-patch+yaml", c.body)
		if c.code != 0 && code != c.code {
			t.Errorf("%s, applied: %d %.300s", name, code, answer)
		}
	}
}

// testWallV7ManyMembers: upstream sorts the members of an object and of a list into
// those that it remembers, and compares those of a strategic merge patch.
func testWallV7ManyMembers(t *testing.T, a *space) {
	members := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ","+format, n-i)
		}
		return b.String()[1:]
	}
	for n, refused := range map[int]bool{10_000: false, 10_001: true, 150_000: true} {
		object := `{"metadata":{"name":"many"},"data":{` + members(n, `"k%d":""`) + `}}`
		pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"many"},"spec":{"containers":[{"name":"c",` +
			`"image":"i","env":[` + members(n, `{"name":"k%d"}`) + `]}]}}`
		for what, send := range map[string]func() (int, string){
			"a config map": func() (int, string) {
				return a.within(t, "a config map", http.MethodPost, "/api/v1/namespaces/default/configmaps?dryRun=All",
					"application/json", object)
			},
			"a pod": func() (int, string) {
				return a.within(t, "a pod", http.MethodPost, "/api/v1/namespaces/default/pods?dryRun=All",
					"application/json", pod)
			},
			"a pod, applied": func() (int, string) {
				return a.within(t, "a pod, applied", http.MethodPatch,
					"/api/v1/namespaces/default/pods/many?dryRun=All&fieldManager=t",
					"application/apply-patch+yaml", pod)
			},
		} {
			if code, answer := send(); refused != (code == http.StatusRequestEntityTooLarge) ||
				!refused && code != http.StatusCreated {
				t.Errorf("%s with %d: %d %.300s", what, n, code, answer)
			}
		}
		code, answer := a.within(t, "a strategic merge patch", http.MethodPatch,
			"/api/v1/namespaces/default/pods/many", "application/strategic-merge-patch+json", pod)
		if code != http.StatusRequestEntityTooLarge {
			t.Errorf("a strategic merge patch: %d %.300s", code, answer)
		}
	}
}

// testOrdinaryBodies: what people send is taken as before.
func testOrdinaryBodies(t *testing.T, a *space) {
	var definition strings.Builder
	definition.WriteString("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n" +
		"  name: larges.example.com\nspec:\n  group: example.com\n  scope: Namespaced\n" +
		"  names: {kind: Large, plural: larges, singular: large, listKind: LargeList}\n  versions:\n  - name: v1\n" +
		"    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n" +
		"        properties:\n          spec:\n            type: object\n            properties:\n")
	for i := 0; definition.Len() < 900_000; i++ {
		fmt.Fprintf(&definition, "              field%d:\n                type: string\n"+
			"                description: |-\n%s", i, strings.Repeat("                  What it is, "+
			"and how it is set: see https://example.com, *all* of it & more.\n", 20))
	}
	for _, c := range []struct {
		name, method, path, media, body string
		code                            int
	}{
		{"a definition", http.MethodPatch,
			"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/larges.example.com?fieldManager=t",
			"application/apply-patch+yaml", definition.String(), 201},
		{"an object in YAML", http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/yaml",
			"metadata: {name: plain}\ndata: &d {a: b}\nbinaryData: {}\n", 201},
		{"a name made up", http.MethodPost, "/api/v1/namespaces", "application/yaml",
			"metadata: {generateName: y-}\n", 201},
		{"a name made up, hidden", http.MethodPost, "/api/v1/namespaces", "application/json",
			`{"metadata":{"generat\u0065Name":"y-"}}`, 201},
		{"an eviction of nothing", http.MethodPost, "/api/v1/namespaces/default/pods/none/eviction",
			"application/json", `{"kind":"Eviction","apiVersion":"policy/v1","metadata":{"name":"none"}}`, 404},
		{"a token", http.MethodPost, "/api/v1/namespaces/default/serviceaccounts/default/token", "application/json",
			`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1"}`, 201},
		{"options", http.MethodDelete, "/api/v1/namespaces/default/configmaps/plain", "application/yaml",
			"kind: DeleteOptions\napiVersion: v1\ngracePeriodSeconds: 0\n", 200},
		{"no options", http.MethodDelete, "/api/v1/namespaces/default/configmaps/none", "application/json", "", 404},
		{"too long", http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/json",
			strings.Repeat(" ", 3<<20+1), 413},
	} {
		if code, answer := a.within(t, c.name, c.method, c.path, c.media, c.body); code != c.code {
			t.Errorf("%s: %d %.500s", c.name, code, answer)
		}
	}
}
