package edge

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-openapi/pkg/handler3"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/discovery"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// define is a served v1 with one field, in whose name it can be distinguished.
func define(plural, group, kind, field string) *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind,
		ListKind: kind + "List"}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped, Names: names,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{field: {Type: "string"}},
				}},
			}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: names},
	}
}

// fakeCatalog is made of the CRDs of tenants and those that the system
// shares with all who have not their own.
type fakeCatalog struct {
	own        map[string][]*apiextensionsv1.CustomResourceDefinition
	shared     []*apiextensionsv1.CustomResourceDefinition
	generation int64
}

func (f *fakeCatalog) Resource(tenant, group, resource string) (kinds.Kind, bool) {
	for _, crd := range append(f.shared, f.own[tenant]...) {
		if crd.Spec.Group == group && crd.Spec.Names.Plural == resource {
			return kinds.Kind{Group: group, Resource: resource, Kind: crd.Spec.Names.Kind, Namespaced: true}, true
		}
	}
	return kinds.Kind{Class: kinds.System}, group == "example.com"
}

func (f *fakeCatalog) Own(tenant, group, resource string) bool {
	for _, crd := range f.own[tenant] {
		if crd.Spec.Group == group && crd.Spec.Names.Plural == resource {
			return true
		}
	}
	return false
}

func (f *fakeCatalog) Kind(string, string, string) (kinds.Kind, bool) { return kinds.Kind{}, false }
func (f *fakeCatalog) GroupOf(string, string) (string, bool)          { return "", false }
func (f *fakeCatalog) HasGroup(string, string) bool                   { return false }
func (f *fakeCatalog) Excluded(group string) bool                     { return group == "custom.metrics.k8s.io" }
func (f *fakeCatalog) Generation(string) int64                        { return f.generation }
func (f *fakeCatalog) CRDs(tenant string) []*apiextensionsv1.CustomResourceDefinition {
	return f.own[tenant]
}

// upstream is an API server with apps/v1, metrics and CRDs of its own.
type upstream struct {
	crds  discovery.Set
	asked []string
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	u.asked = append(u.asked, req.URL.RequestURI())
	media, body := "application/json", []byte(nil)
	deployments := apidiscovery.APIResourceDiscovery{Resource: "deployments",
		ResponseKind: &metav1.GroupVersionKind{Kind: "Deployment"}, Verbs: []string{"list"}}
	nodes := apidiscovery.APIResourceDiscovery{Resource: "nodes",
		ResponseKind: &metav1.GroupVersionKind{Kind: "NodeMetrics"}, Verbs: []string{"list"}}
	builtIn := func(group, version string, r apidiscovery.APIResourceDiscovery) apidiscovery.APIGroupDiscovery {
		return apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: group},
			Versions: []apidiscovery.APIVersionDiscovery{{Version: version,
				Resources: []apidiscovery.APIResourceDiscovery{r}}}}
	}
	list := append([]apidiscovery.APIGroupDiscovery{
		builtIn("apps", "v1", deployments), builtIn("custom.metrics.k8s.io", "v1beta1", nodes),
	}, u.crds.Aggregated()...)
	gv := groupVersion(strings.TrimPrefix(strings.TrimPrefix(req.URL.Path, "/openapi/v3"), "/apis/"))
	set := func(v any) { body, _ = json.Marshal(v) }
	switch {
	case req.URL.Path == "/apis" && strings.Contains(req.Header.Get("Accept"), "v=v2;as=APIGroupDiscoveryList"):
		media = aggregatedJSON
		set(apidiscovery.APIGroupDiscoveryList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
			Items:    list,
		})
	case req.URL.Path == "/apis":
		set(metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}, Groups: append([]metav1.APIGroup{
			{Name: "apps", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "apps/v1", Version: "v1"}}},
		}, u.crds.Groups()...)})
	case req.URL.Path == "/openapi/v2":
		set(map[string]any{"paths": map[string]any{
			"/apis/apps/v1/deployments": map[string]any{},
			"/apis/example.com/v1/secrets": map[string]any{
				"get": map[string]any{"$ref": "#/definitions/Hidden"},
			},
			"/apis/example.com/v1/foos": map[string]any{
				"get": map[string]any{"$ref": "#/definitions/Foo"},
			},
			"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas": map[string]any{},
		}, "definitions": map[string]any{
			"Hidden": map[string]any{
				"x-kubernetes-group-version-kind": []any{map[string]any{"group": "example.com", "kind": "Secret"}},
			},
			"Foo": map[string]any{
				"x-kubernetes-group-version-kind": []any{map[string]any{"group": "example.com", "kind": "Foo"}},
			},
			"Deployment": map[string]any{
				"x-kubernetes-group-version-kind": []any{map[string]any{"group": "apps", "kind": "Deployment"}},
			},
			"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": map[string]any{
				"properties": map[string]any{"name": map[string]any{"type": "string"}},
			},
			"Filler": map[string]any{"description": strings.Repeat("many words ", gzipFrom/10)},
		}})
	case req.URL.Path == "/openapi/v3":
		paths := map[string]handler3.OpenAPIV3DiscoveryGroupVersion{
			"apis/apps/v1": {ServerRelativeURL: "/openapi/v3/apis/apps/v1?hash=DEPLOYMENTS"},
		}
		for _, gv := range u.crds.GroupVersions() {
			paths["apis/"+gv.String()] = handler3.OpenAPIV3DiscoveryGroupVersion{
				ServerRelativeURL: "/openapi/v3/apis/" + gv.String() + "?hash=UPSTREAM",
			}
		}
		set(handler3.OpenAPIV3Discovery{Paths: paths})
	case strings.HasPrefix(req.URL.Path, "/openapi/v3/"):
		if doc := u.crds.OpenAPI3(gv); doc != nil {
			set(doc)
			w.Header().Set("Etag", `"UPSTREAM"`)
		}
	case gv.Group == "":
		for _, g := range u.crds.Groups() {
			if g.Name == gv.Version {
				g.Kind = "APIGroup"
				set(g)
			}
		}
	default:
		if r := u.crds.Resources(gv); r != nil {
			set(metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"},
				GroupVersion: gv.String(), APIResources: r})
		}
	}
	if body == nil {
		if w.WriteHeader(http.StatusNotFound); !strings.HasPrefix(req.URL.Path, "/openapi/") {
			io.WriteString(w, "404 page not found\n") //nolint:errcheck // a recorder
		}
		return
	}
	if w.Header().Get("Etag") == "" && !strings.Contains(string(body), "APIGroupList") {
		w.Header().Set("Etag", fmt.Sprintf("%q", req.URL.Path+fmt.Sprint(len(body))))
	}
	if req.Header.Get("If-None-Match") != "" && req.Header.Get("If-None-Match") == w.Header().Get("Etag") {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", media)
	w.Write(body) //nolint:errcheck // a recorder
}

// plainTenants are there, and have nothing that others have not.
type plainTenants struct{}

func (plainTenants) Get(_ context.Context, name string) (*tenantapi.Tenant, error) {
	return &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

func (plainTenants) Exists(context.Context, string) (bool, error) { return true, nil }

// cluster has, besides the system's own CRD of secrets, one of foos
// that it shares; tenant a defines foos anew, and bars.
func cluster() (*Edge, *upstream, *fakeCatalog) {
	foos := define("foos", "example.com", "Foo", "ofSystem")
	u := &upstream{crds: discovery.Set{foos, define("secrets", "example.com", "Secret", "ofNobody")}}
	f := &fakeCatalog{
		shared: []*apiextensionsv1.CustomResourceDefinition{foos},
		own: map[string][]*apiextensionsv1.CustomResourceDefinition{
			"a": {define("bars", "own.io", "Bar", "ofA"), define("foos", "example.com", "Foo", "ofA")},
			space.All: {define("bars", "own.io", "Bar", "x"), define("foos", "example.com", "Foo", "x"),
				define("bazs", "example.com", "Baz", "x")},
		},
	}
	return New(Options{CustomResources: f, Tenants: plainTenants{}}), u, f
}

// fetch asks for a document as a tenant does, or the system if they are "".
func fetch(t *testing.T, e *Edge, u *upstream, tenant, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	method := http.MethodGet
	if m, p, ok := strings.Cut(path, " "); ok {
		method, path = m, p
	}
	req := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	var err error
	switch tenant {
	case "":
		err = e.serveSystem(w, req, u, read(req))
	case space.All:
		var done bool
		if done, err = e.serveCompositeDiscovery(w, req, u, read(req)); !done {
			t.Errorf("%s is not answered", path)
		}
	default:
		asked := read(withPath(req, "/tenants/"+tenant+req.URL.Path))
		asked.space = tenant
		err = e.serveNonResource(w, withoutEncoding(req), u, e.Projector(tenant), asked)
	}
	if err != nil {
		t.Fatalf("%s for %q: %v", path, tenant, err)
	}
	return w
}

// TestDocumentsAreOnlyRead: upstream's handlers of custom groups answer other
// methods with the document as well, and not with that of the space. Who may not
// even ask is told so, as by upstream.
func TestDocumentsAreOnlyRead(t *testing.T) {
	for _, method := range []string{http.MethodDelete, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodOptions, http.MethodHead} {
		for _, path := range []string{"/apis", "/apis/own.io", "/apis/own.io/v1", "/openapi/v2",
			"/openapi/v3/apis/own.io/v1", "/api/v1"} {
			for _, code := range []int{http.StatusOK, http.StatusForbidden} {
				if method == http.MethodHead && code == http.StatusOK {
					continue // it is read
				}
				e, w := New(Options{}), httptest.NewRecorder()
				req := httptest.NewRequest(method, path, nil)
				asked := read(req)
				asked.space = "a"
				err := e.serveNonResource(w, req, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == method {
						w.WriteHeader(code)
					}
					_, _ = w.Write([]byte("{}")) // it is in memory
				}), e.Projector("a"), asked)
				status, isStatus := err.(apierrors.APIStatus)
				switch {
				case code == http.StatusForbidden:
					if err != nil || w.Code != code {
						t.Errorf("%s %s, refused: %d, %v", method, path, w.Code, err)
					}
				case !isStatus || status.Status().Code != http.StatusMethodNotAllowed || w.Body.Len() > 0:
					t.Errorf("%s %s: %v, %q", method, path, err, w.Body)
				}
			}
		}
	}
}

func TestDocumentsOfSpaces(t *testing.T) {
	const v2 = aggregatedJSON + ",application/json"
	for _, c := range []struct {
		tenant, path, accept string
		code                 int
		has, hasNot          []string
	}{
		{"a", "/apis", v2, 200, []string{`"deployments"`, `"foos"`, `"bars"`, `"own.io"`},
			[]string{"secrets", "custom.metrics.k8s.io"}},
		{"b", "/apis", v2, 200, []string{`"deployments"`, `"foos"`},
			[]string{"secrets", "bars", "own.io", "custom.metrics.k8s.io"}},
		{"a", "/apis", "", 200, []string{`"apps/v1"`, `"example.com/v1"`, `"own.io/v1"`}, nil},
		{"b", "/apis", "", 200, []string{`"apps/v1"`, `"example.com/v1"`}, []string{"own.io"}},
		{"a", "/apis/own.io", "", 200, []string{`"kind":"APIGroup"`, `"own.io/v1"`}, nil},
		{"b", "/apis/own.io", "", 404, nil, nil},
		{"a", "/apis/example.com/", "", 200, []string{`"kind":"APIGroup"`, `"example.com/v1"`}, nil},
		{"a", "/apis/own.io/v1", "", 200,
			[]string{`"kind":"APIResourceList"`, `"groupVersion":"own.io/v1"`, `"bars"`}, nil},
		{"b", "/apis/own.io/v1", "", 404, nil, nil},
		{"b", "/apis/example.com/v1", "", 200, []string{`"foos"`}, []string{"secrets"}},
		{"a", "/openapi/v2", "", 200, []string{`"ofA"`, `/apis/own.io/v1/bars"`, `"Deployment"`, `/deployments"`},
			[]string{"ofSystem", `"Hidden"`, "secrets", `"Foo":`}},
		{"b", "/openapi/v2", "", 200, []string{`"Foo"`, `/foos"`}, []string{"ofA", "bars", `"Hidden"`, "secrets"}},
		{"a", "/openapi/v3/apis/example.com/v1", "", 200, []string{`"ofA"`, "/foos"},
			[]string{"ofSystem", "ofNobody", "/secrets"}},
		{"b", "/openapi/v3/apis/example.com/v1", "", 200, []string{`"ofSystem"`, "/foos"},
			[]string{"ofA", "ofNobody", "/secrets"}},
		{"a", "/openapi/v3/apis/own.io/v1", "", 200, []string{`"ofA"`, "/bars"}, nil},
		{"b", "/openapi/v3/apis/own.io/v1", "", 404, nil, nil},
		{"a", "/openapi/v3", "", 200, []string{`/tenants/a/openapi/v3/apis/apps/v1?hash=`,
			`/tenants/a/openapi/v3/apis/own.io/v1?hash=`}, []string{"UPSTREAM"}},
		{"b", "/openapi/v3", "", 200, []string{`/tenants/b/openapi/v3/apis/example.com/v1?hash=`},
			[]string{"UPSTREAM", "own.io"}},

		// The system sees its own as they are, and no others.
		{"", "/apis", v2, 200, []string{`"secrets"`, `"custom.metrics.k8s.io"`}, []string{"bars", "bazs"}},
		{"", "/apis", "", 200, []string{`"example.com/v1"`}, []string{"own.io"}},
		{"", "/apis/own.io", "", 404, nil, nil},
		{"", "/apis/example.com/v1", "", 200, []string{`"secrets"`}, []string{"bazs"}},
		// Controllers see those of all, under other names, and what is no
		// custom resource.
		{space.All, "/apis", v2, 200, []string{`"deployments"`, `"custom.metrics.k8s.io"`, `"bars"`, `"bazs"`},
			[]string{"secrets"}},
		{space.All, "/apis", "", 200, []string{`"own.io/v1"`, `"apps/v1"`}, nil},
		{space.All, "/apis/own.io", "", 200, []string{`"own.io/v1"`}, nil},
		{space.All, "/apis/own.io/v1", "", 200, []string{`"bars"`}, nil},
		{space.All, "/apis/example.com/v1", "", 200, []string{`"bazs"`}, []string{"secrets"}},
		{space.All, "/apis/other.io/v1", "", 404, nil, nil},
	} {
		e, u, _ := cluster()
		header := []string{}
		if c.accept != "" {
			header = []string{"Accept", c.accept}
		}
		// The second time from memory.
		for range 2 {
			w := fetch(t, e, u, c.tenant, c.path, header...)
			body := w.Body.String()
			if w.Code != c.code {
				t.Errorf("%s for %q: %d %s", c.path, c.tenant, w.Code, body)
			}
			for _, part := range c.has {
				if !strings.Contains(body, part) {
					t.Errorf("%s for %q has no %s: %.2000s", c.path, c.tenant, part, body)
				}
			}
			for _, part := range c.hasNot {
				if strings.Contains(body, part) {
					t.Errorf("%s for %q has %s", c.path, c.tenant, part)
				}
			}
			if c.accept != "" && w.Header().Get("Content-Type") != aggregatedJSON {
				t.Errorf("%s for %q: content type %s", c.path, c.tenant, w.Header().Get("Content-Type"))
			}
		}
	}
}

// TestCompositeDocumentsAreDiscovery: nothing else is made up.
func TestCompositeDocumentsAreDiscovery(t *testing.T) {
	e, u, _ := cluster()
	for _, path := range []string{"/apis/example.com/v1/foos", "/apis/example.com/v1/namespaces/x/foos/y",
		"/openapi/v2", "/api/v1", "/version"} {
		req := httptest.NewRequest(http.MethodGet, path, nil)
		if done, _ := e.serveCompositeDiscovery(httptest.NewRecorder(), req, u, read(req)); done {
			t.Errorf("%s was answered", path)
		}
	}
}

func TestDocumentsAreValidatedByClients(t *testing.T) {
	e, u, f := cluster()
	first := fetch(t, e, u, "a", "/openapi/v2", "Accept-Encoding", "gzip")
	etag := first.Header().Get("Etag")
	if first.Header().Get("Content-Encoding") != "gzip" || etag == "" {
		t.Fatalf("headers %v", first.Header())
	}
	z, err := gzip.NewReader(first.Body)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := io.ReadAll(z)
	if plain := fetch(t, e, u, "a", "/openapi/v2").Body.Bytes(); err != nil || !bytes.Equal(unzipped, plain) {
		t.Errorf("compressed it is another document: %v", err)
	}
	if w := fetch(t, e, u, "a", "/openapi/v2", "If-None-Match", etag); w.Code != http.StatusNotModified ||
		w.Body.Len() > 0 {
		t.Errorf("not modified: %d", w.Code)
	}
	if w := fetch(t, e, u, "a", "HEAD /openapi/v2"); w.Code != http.StatusOK || w.Body.Len() > 0 ||
		w.Header().Get("Etag") != etag || w.Header().Get("Content-Length") != fmt.Sprint(len(unzipped)) {
		t.Errorf("HEAD: %d %v", w.Code, w.Header())
	}
	f.own["a"], f.generation = f.own["a"][:1], f.generation+1
	if w := fetch(t, e, u, "a", "/openapi/v2", "If-None-Match", etag); w.Code != http.StatusOK ||
		w.Header().Get("Etag") == etag {
		t.Errorf("after a change: %d", w.Code)
	}
}

// TestHashesFollowTheContent: the address of a document of version 3 is
// another one when its content is, whether that comes from upstream, from the
// space's own CRDs or from what the space is shown.
func TestHashesFollowTheContent(t *testing.T) {
	e, u, f := cluster()
	address := func(tenant, gv string) string {
		t.Helper()
		var list handler3.OpenAPIV3Discovery
		if err := json.Unmarshal(fetch(t, e, u, tenant, "/openapi/v3").Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(list.Paths["apis/"+gv].ServerRelativeURL, "/tenants/"+tenant)
	}
	for _, gv := range []string{"example.com/v1", "own.io/v1"} {
		at := address("a", gv)
		if w := fetch(t, e, u, "a", at); w.Code != http.StatusOK ||
			!strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", at, w.Code, w.Header())
		}
		w := fetch(t, e, u, "a", "/openapi/v3/apis/"+gv+"?hash=OLD")
		if to := w.Header().Get("Location"); w.Code != http.StatusMovedPermanently || to != "/tenants/a"+at {
			t.Errorf("an old hash: %d %s, want %s", w.Code, to, at)
		}
	}
	was := address("a", "example.com/v1")
	f.own["a"][1], f.generation = define("foos", "example.com", "Foo", "changed"), f.generation+1
	changed := address("a", "example.com/v1")
	f.own["a"], f.generation = f.own["a"][:1], f.generation+1
	sharedOne := address("a", "example.com/v1")
	f.shared, f.generation = append(f.shared, u.crds[1]), f.generation+1
	both := address("a", "example.com/v1")
	for i, pair := range [][2]string{{was, changed}, {changed, sharedOne}, {sharedOne, both}} {
		if pair[0] == pair[1] {
			t.Errorf("change %d: the hash is the same", i)
		}
	}
	for _, asked := range u.asked {
		if strings.Contains(asked, "hash=") {
			t.Errorf("upstream was asked for %s", asked)
		}
	}
}

// TestEqualDocumentsAreMadeOnce, whoever asks for them, and what is remembered
// is bounded.
func TestEqualDocumentsAreMadeOnce(t *testing.T) {
	e, u, f := cluster()
	f.own["c"] = f.own["a"]
	for _, tenant := range []string{"a", "b", "c", "d", "e"} {
		fetch(t, e, u, tenant, "/openapi/v2")
	}
	if n := len(e.discoveryCache.documents.known); n != 2 {
		t.Errorf("%d documents are remembered", n)
	}
	tagged := 0
	for range 3 {
		u.asked = nil
		fetch(t, e, u, "d", "/openapi/v2")
		tagged += len(u.asked)
	}
	if tagged != 6 {
		t.Errorf("upstream was asked %d times for 3 documents", tagged)
	}

	b := lruCache[int]{max: 100}
	for i := range 50 {
		b.put(fmt.Sprint(i), i, 18)
		if i > 2 {
			if v, ok := b.get("2"); !ok || v != 2 {
				t.Fatalf("after %d the one in use was forgotten", i)
			}
		}
	}
	b.put("2", 3, 18)
	if v, _ := b.get("2"); v != 3 || len(b.known) != 5 || b.order.Len() != 5 || b.size > 100 {
		t.Errorf("%d are lruEntry, %d bytes, the value is %d", len(b.known), b.size, v)
	}
	b.put("huge", 1, 101)
	if _, ok := b.get("huge"); ok || len(b.known) != 5 {
		t.Error("one value made all others be forgotten")
	}
}

// TestForeignGroupsLookLikeNoGroups: a space cannot find out what others define.
func TestForeignGroupsLookLikeNoGroups(t *testing.T) {
	e, u, f := cluster()
	f.shared = nil
	for _, path := range []string{"/apis/%s", "/apis/%s/v1", "/openapi/v3/apis/%s/v1"} {
		there, none := fetch(t, e, u, "b", fmt.Sprintf(path, "example.com")),
			fetch(t, e, u, "b", fmt.Sprintf(path, "none.com"))
		if there.Code != http.StatusNotFound || there.Body.String() != none.Body.String() ||
			there.Header().Get("Etag") != "" {
			t.Errorf("%s: %d %q, and %d %q", path, there.Code, there.Body, none.Code, none.Body)
		}
	}
}

// TestDocumentsDeclareTheTenant: the metadata of objects have the field in the
// documents of all spaces, and those who remember documents without it ask again.
func TestDocumentsDeclareTheTenant(t *testing.T) {
	e, u, _ := cluster()
	for _, tenant := range []string{"", "a", "b", space.System} {
		for path, keys := range map[string][]string{
			"/openapi/v2":                      {"definitions"},
			"/openapi/v3/apis/example.com/v1":  {"components", "schemas"},
			"/openapi/v3/apis/example.com/v1/": {"components", "schemas"},
		} {
			w := fetch(t, e, u, tenant, path)
			var doc map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
				t.Fatalf("%s for %q: %d %v", path, tenant, w.Code, err)
			}
			meta, _, err := unstructured.NestedMap(doc,
				append(keys, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "properties")...)
			if field, ok := meta["tenant"].(map[string]any); err != nil || !ok || field["type"] != "string" ||
				meta["name"] == nil {
				t.Errorf("%s for %q: the metadata are %v, %v", path, tenant, meta, err)
			}
		}
		for _, known := range []string{"DEPLOYMENTS", "UPSTREAM"} {
			if w := fetch(t, e, u, tenant, "/openapi/v3"); w.Code != http.StatusOK ||
				strings.Contains(w.Body.String(), known) || !strings.Contains(w.Body.String(), "apps/v1?hash=") {
				t.Errorf("the index for %q has the hash %s: %s", tenant, known, w.Body)
			}
		}
		w := fetch(t, e, u, tenant, "/openapi/v3/apis/example.com/v1?hash=UPSTREAM")
		if at := w.Header().Get("Location"); w.Code != http.StatusMovedPermanently ||
			strings.Contains(at, "UPSTREAM") {
			t.Errorf("a lruEntry document for %q: %d %s", tenant, w.Code, at)
		}
	}
}
