package spaces_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/a4s-io/a4s/tests/nstest"
)

const asTable = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// TestAll looks at all spaces as an administrator's client does: it asks what
// there is, and then for that.
func TestAll(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.bareTenant(t, "a"), p.bareTenant(t, "b")
	for _, s := range []*space{a, b} {
		if _, err := s.client.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shared-name"}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p.as(t, "system", p.Admin).define(t, definition("system.example.com"))
	all := rest.CopyConfig(p.Admin)
	all.Host += "/tenants/all"
	eventually(t, "the definition to be in discovery", func(context.Context) (bool, error) {
		_, v2 := do(t, p.Admin, http.MethodGet, "/apis", "",
			[]string{"Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"})
		_, v3 := get(t, p.Admin, "/openapi/v3")
		return strings.Contains(v2, "system.example.com") && strings.Contains(v3, "system.example.com/v1"), nil
	})
	for name, legacy := range map[string]bool{"aggregated": false, "legacy": true} {
		t.Run(name+" discovery", func(t *testing.T) { testDiscoveryOfAll(t, all, legacy) })
	}
	t.Run("openapi", func(t *testing.T) {
		client, err := discovery.NewDiscoveryClientForConfig(all)
		if err != nil {
			t.Fatal(err)
		}
		paths, err := client.OpenAPIV3().Paths()
		if err != nil || paths["api/v1"] == nil || paths["apis/apps/v1"] == nil ||
			paths["apis/system.example.com/v1"] == nil {
			t.Fatalf("OpenAPI v3: %v, %v", paths, err)
		}
		if doc, err := paths["apis/apps/v1"].Schema("application/json"); err != nil ||
			!strings.Contains(string(doc), "DeploymentSpec") {
			t.Errorf("of apps: %v", err)
		}
		if doc, err := client.OpenAPISchema(); err != nil || len(doc.GetPaths().GetPath()) < 100 {
			t.Errorf("OpenAPI v2: %v", err)
		}
		if v, err := client.ServerVersion(); err != nil || v.Major == "" {
			t.Errorf("the version: %v, %v", v, err)
		}
	})
	t.Run("tables", func(t *testing.T) { testTablesOfAll(t, p) })
	t.Run("others", func(t *testing.T) {
		for _, path := range []string{"/tenants/all/api", "/tenants/all/apis", "/tenants/all/openapi/v3",
			"/tenants/all/api/v1/configmaps"} {
			if code, body := get(t, a.config, path); code != http.StatusForbidden {
				t.Errorf("%s by a tenant: %d %.200s", path, code, body)
			}
		}
		for _, c := range []struct{ method, path string }{
			{http.MethodGet, "/tenants/all/api/v1/namespaces/default/pods"},
			{http.MethodGet, "/tenants/all/api/v1/namespaces/default"},
			{http.MethodDelete, "/tenants/all/api/v1/configmaps"}, {http.MethodPost, "/tenants/all/api/v1/namespaces"},
		} {
			if code, body := do(t, p.Admin, c.method, c.path, "", nil); code != http.StatusBadRequest ||
				!strings.Contains(body, "address one tenant") {
				t.Errorf("%s %s: %d %.200s", c.method, c.path, code, body)
			}
		}
	})
}

func testDiscoveryOfAll(t *testing.T, all *rest.Config, legacy bool) {
	client, err := discovery.NewDiscoveryClientForConfig(all)
	if err != nil {
		t.Fatal(err)
	}
	client.UseLegacyDiscovery = legacy
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			found[list.GroupVersion+"/"+r.Name] = true
			if strings.Contains(r.Name, "/") || len(r.Verbs) == 0 ||
				slices.ContainsFunc(r.Verbs, func(v string) bool { return v != "list" && v != "watch" }) {
				t.Errorf("%s %s: %v", list.GroupVersion, r.Name, r.Verbs)
			}
		}
	}
	for name, want := range map[string]bool{"v1/pods": true, "v1/nodes": true, "v1/tenants": true,
		"apps/v1/daemonsets": true, "system.example.com/v1/foos": true, "authentication.k8s.io/v1/tokenreviews": false,
		"v1/bindings": false} {
		if found[name] != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
	mapper := restmapper.NewShortcutExpander(
		restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client)), client, nil)
	gvr, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: "cm"})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(all)
	if err != nil {
		t.Fatal(err)
	}
	list, err := objects.Resource(gvr).List(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=shared-name"})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("what is found by it: %v, %v", list, err)
	}
}

func testTablesOfAll(t *testing.T, p *plane) {
	for _, c := range []struct {
		path, namespace string
		column          int
	}{
		{"/tenants/all/api/v1/configmaps?fieldSelector=metadata.name%3Dshared-name", "default", 0},
		{"/api/v1/tenants/all/configmaps?fieldSelector=metadata.name%3Dshared-name", "default", 0},
		{"/api/v1/configmaps?fieldSelector=metadata.name%3Dshared-name", "default.a", -1},
		{"/tenants/all/api/v1/configmaps?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dshared-name",
			"default", 0},
		{"/api/v1/configmaps?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dshared-name", "default.a", -1},
	} {
		body := says(t, p.Admin, c.path, strings.TrimPrefix(asTable, "Accept: "), func(body string) bool {
			return strings.Contains(body, `"namespace":"`+c.namespace+`"`) && strings.Count(body, `"cells":`) > 1
		})
		var tenants, columns []string
		for decoder := json.NewDecoder(strings.NewReader(body)); decoder.More(); {
			var event struct {
				metav1.Table
				Object *metav1.Table `json:"object"`
			}
			if err := decoder.Decode(&event); err != nil {
				t.Fatal(err)
			}
			table := &event.Table
			if event.Object != nil {
				table = event.Object
			}
			for _, column := range table.ColumnDefinitions {
				columns = append(columns, column.Name)
			}
			for _, row := range table.Rows {
				tenants = append(tenants, row.Cells[(c.column+len(row.Cells))%len(row.Cells)].(string))
			}
		}
		slices.Sort(tenants)
		if !slices.Equal(tenants, []string{"a", "b"}) || columns[(c.column+len(columns))%len(columns)] != "Tenant" {
			t.Errorf("%s: tenants %v, columns %v", c.path, tenants, columns)
		}
	}
	for _, path := range []string{"/api/v1/namespaces/default/configmaps", "/api/v1/tenants/system/configmaps",
		"/tenants/a/api/v1/configmaps", "/api/v1/nodes", "/api/v1/namespaces"} {
		if code, body := do(t, p.Admin, http.MethodGet, path, "", []string{asTable}); code != http.StatusOK ||
			strings.Contains(body, `"name":"Tenant"`) {
			t.Errorf("%s has the column: %d %.300s", path, code, body)
		}
	}
	if code, body := get(t, p.Admin, "/api/v1/configmaps"); code != http.StatusOK ||
		strings.Contains(body, `"tenant":`) {
		t.Errorf("a list is not as it was: %d %.300s", code, body)
	}
}
