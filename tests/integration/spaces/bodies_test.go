package spaces_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/nstest"
)

// reply is an answer with its warnings.
type reply struct {
	code     int
	warnings []string
	body     string
}

// send sends a body of a media type.
func send(t *testing.T, cfg *rest.Config, method, path, media, body string) reply {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, cfg.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", media)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header.Values("Warning"), string(answer)}
}

const (
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	jsonPatch      = "application/json-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

// TestBodies: what a body says, of its space and twice, counts as it should.
func TestBodies(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	t.Run("a body on a short path names a space", func(t *testing.T) { testShortPathBodies(t, p, a) })
	t.Run("a body says something twice", func(t *testing.T) { testTwice(t, p, a) })
	t.Run("a tenant's body names another space", func(t *testing.T) { testOverruledBodies(t, p, a, b) })
}

// testShortPathBodies: a user of the system cannot change the space by the body,
// because what they read and delete on the same path is the system's.
func testShortPathBodies(t *testing.T, p *plane, a *space) {
	const maps = "/api/v1/namespaces/default/configmaps"
	object := func(tenant string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"by-body","namespace":"default","tenant":"` +
			tenant + `"},"data":{"by":"` + tenant + `"}}`
	}
	const inYAML = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: by-body, tenant: a}\n"
	if r := send(t, p.Admin, http.MethodPost, maps, "application/json",
		object("system")); r.code != http.StatusCreated || strings.Contains(r.body, "tenant") {
		t.Errorf("of the system itself: %+v", r)
	}
	for _, c := range []struct{ method, path, media, body string }{
		{http.MethodPost, maps, "application/json", object("a")},
		{http.MethodPost, maps + "?dryRun=All", "application/json", object("a")},
		{http.MethodPost, maps, "application/yaml", inYAML},
		{http.MethodPut, maps + "/by-body", "application/json", object("a")},
		{http.MethodPatch, maps + "/by-body", mergePatch, `{"metadata":{"tenant":"a"},"data":{"by":"a"}}`},
		{http.MethodPatch, maps + "/by-body", strategicPatch, `{"metadata":{"t\u0065nant":"a"},"data":{"by":"a"}}`},
		{http.MethodPatch, maps + "/by-body", jsonPatch,
			`[{"op":"add","path":"/metadata/tenant","value":"a"},{"op":"add","path":"/data","value":{"by":"a"}}]`},
		{http.MethodPatch, maps + "/by-body?fieldManager=x&force=true", applyPatch, inYAML},
		{http.MethodPatch, maps + "/by-body?fieldManager=x&force=true", applyPatch, object("a")},
	} {
		r := send(t, p.Admin, c.method, c.path, c.media, c.body)
		for _, want := range []string{`metadata.tenant is \"a\"`, "the path " + strings.Split(c.path, "?")[0],
			"/api/v1/tenants/a/namespaces/default/configmaps", "a4s kubectl --tenant a", "a4s tenant kubeconfig a"} {
			if r.code != http.StatusBadRequest || !strings.Contains(r.body, want) {
				t.Errorf("%s %s of %s: %d without %q: %s", c.method, c.path, c.media, r.code, want, r.body)
			}
		}
	}
	if r := send(t, p.Admin, http.MethodPost, maps, "application/json",
		object("../b")); r.code != http.StatusBadRequest || !strings.Contains(r.body, "the name of no tenant") ||
		strings.Contains(r.body, "/tenants/../b") {
		t.Errorf("no tenant at all: %+v", r)
	}
	if list, err := a.client.CoreV1().ConfigMaps("").
		List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=by-body"}); err != nil ||
		len(list.Items) > 0 {
		t.Errorf("the tenant has %v, %v", list.Items, err)
	}
	for method, media := range map[string]string{http.MethodPut: "application/json", http.MethodPatch: applyPatch} {
		if r := send(t, p.Admin, method, maps+"/by-body?fieldManager=y&force=true", media,
			object("system")); r.code != http.StatusOK || strings.Contains(r.body, "tenant") {
			t.Errorf("%s of the system's own: %+v", method, r)
		}
	}
	system, err := p.admin.CoreV1().ConfigMaps("default").Get(t.Context(), "by-body", metav1.GetOptions{})
	if err != nil || system.Data["by"] != "system" {
		t.Errorf("the system's object: %v, %v", system, err)
	}
	// A path says it.
	for _, path := range []string{"/api/v1/tenants/a/namespaces/default/configmaps",
		"/tenants/a/api/v1/namespaces/default/configmaps"} {
		if r := send(t, p.Admin, http.MethodPost, path+"?dryRun=All", "application/json",
			object("a")); r.code != http.StatusCreated || !strings.Contains(r.body, `"tenant":"a"`) {
			t.Errorf("POST %s: %+v", path, r)
		}
		// The path counts for administrators, too.
		if r := send(t, p.Admin, http.MethodPost, path+"?dryRun=All", "application/json", object("b")); r.code !=
			http.StatusCreated || !strings.Contains(r.body, `"tenant":"a"`) || len(r.warnings) != 1 ||
			!strings.Contains(r.warnings[0], `metadata.tenant: the space \"b\" is ignored`) {
			t.Errorf("POST %s with two spaces: %+v", path, r)
		}
	}
}

// testOverruledBodies: what one space exports can be sent to another, whose user is
// told that it is theirs now.
func testOverruledBodies(t *testing.T, p *plane, a, b *space) {
	const maps = "/api/v1/namespaces/default/configmaps"
	if r := send(t, a.config, http.MethodPost, maps, "application/json", `{"apiVersion":"v1","kind":"ConfigMap",`+
		`"metadata":{"name":"moved"},"data":{"k":"v"}}`); r.code != http.StatusCreated {
		t.Fatal(r)
	}
	wants := func(r reply, code int, what string) {
		t.Helper()
		if r.code != code || len(r.warnings) != 1 || !strings.Contains(r.warnings[0], what) ||
			!strings.Contains(r.warnings[0], `\"b\"`) {
			t.Errorf("%+v, want %d and a warning of %q", r, code, what)
		}
		if code < 300 && (!strings.Contains(r.body, `"tenant":"b"`) || !strings.Contains(r.body, `/tenants/b/`)) {
			t.Errorf("%s is not of the space", r.body)
		}
	}
	_, exported := get(t, a.config, maps+"/moved")
	exported = strings.Replace(exported, `"resourceVersion":`, `"was":`, 1)
	exported = strings.Replace(exported, `"uid":`, `"had":`, 1)
	const was = `metadata.tenant: the space \"a\" is ignored`
	r := send(t, b.config, http.MethodPost, maps+"?fieldValidation=Ignore", "application/json", exported)
	wants(r, http.StatusCreated, was)
	wants(send(t, b.config, http.MethodPost, maps+"?fieldValidation=Ignore", "application/json", exported),
		http.StatusConflict, was)
	wants(send(t, b.config, http.MethodPut, maps+"/moved?fieldValidation=Ignore", "application/json", exported),
		http.StatusOK, was)
	wants(send(t, b.config, http.MethodPost, maps, "application/yaml",
		"metadata:\n  tenant: a\n  name: yaml\nkind: ConfigMap\napiVersion: v1\n"), http.StatusCreated, was)
	wants(send(t, b.config, http.MethodPost, maps, "application/json", `{"kind":"ConfigMap","apiVersion":"v1",`+
		`"metadata":{"name":"linked","selfLink":"/api/v1/tenants/a/namespaces/default/configmaps/linked"}}`),
		http.StatusCreated, `metadata.selfLink: the space \"a\" is ignored`)
	for _, media := range []string{mergePatch, strategicPatch} {
		wants(send(t, b.config, http.MethodPatch, maps+"/moved", media,
			`{"metadata":{"tenant":"a"},"data":{"by":"patch"}}`), http.StatusOK, was)
	}
	wants(send(t, b.config, http.MethodPatch, maps+"/moved", jsonPatch, `[{"op":"add","path":"/metadata/tenant",`+
		`"value":"a"},{"op":"replace","path":"/data/k","value":"w"}]`), http.StatusOK, was)
	r = send(t, b.config, http.MethodPatch, maps+"/moved?fieldManager=x&force=true", applyPatch,
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"moved","tenant":"a"},"data":{"k":"x"}}`)
	wants(r, http.StatusOK, was)
	if strings.Contains(r.body, "f:tenant") || strings.Contains(r.body, "f:selfLink") {
		t.Errorf("the space is somebody's field: %s", r.body)
	}
	// A name that the server makes up.
	wants(send(t, b.config, http.MethodPost, "/api/v1/namespaces", "application/json",
		`{"metadata":{"generateName":"made-","tenant":"a"}}`), http.StatusCreated, was)
	if r := send(t, b.config, http.MethodPost, maps, "application/json", `{"metadata":{"name":"own","tenant":"b",`+
		`"selfLink":"/api/v1/tenants/b/namespaces/default/configmaps/own"}}`); r.code != http.StatusCreated ||
		len(r.warnings) > 0 {
		t.Errorf("of its own space: %+v", r)
	}
	// An administrator as a user of the tenant is one.
	as := rest.CopyConfig(p.Admin)
	as.Impersonate = rest.ImpersonationConfig{UserName: "admin", Extra: map[string][]string{"a4s.io/tenant": {"b"}}}
	wants(send(t, as, http.MethodPatch, maps+"/moved", mergePatch, `{"metadata":{"tenant":"a"}}`), http.StatusOK, was)
	// No other space is written to by it, or told of.
	if r := send(t, b.config, http.MethodPost, "/api/v1/tenants/a/namespaces/default/configmaps", "application/json",
		`{"metadata":{"name":"x","tenant":"b"}}`); r.code != http.StatusForbidden || len(r.warnings) > 0 {
		t.Errorf("in another space: %+v", r)
	}
	cm, err := a.client.CoreV1().ConfigMaps("default").Get(t.Context(), "moved", metav1.GetOptions{})
	if err != nil || len(cm.Data) != 1 || cm.Data["k"] != "v" {
		t.Errorf("what was exported: %v, %v", cm, err)
	}
}
