package edge

import (
	"net/http"
	"testing"

	"github.com/a4s-io/a4s/internal/space"
)

// TestSeedURLResolution is the pseudo-code of the seed's section "Resource URL
// Endpoint Resolution": the space of the URL wins, else that of the user, else
// the default tenant; a user of the system stays with the whole cluster.
func TestSeedURLResolution(t *testing.T) {
	for _, c := range []struct{ inPath, ofUser, defaultTenant, want string }{
		{"t1", "t1", "", "t1"},
		{"t2", "t1", "", "t2"}, // access is decided by the authorizer
		{"system", "t1", "", "system"},
		{"t1", "system", "", "t1"},
		{"t1", "", "", "t1"},
		{"t1", "", "dev", "t1"},
		{"", "t1", "", "t1"},
		{"", "t1", "dev", "t1"},
		{"", "system", "", ""},
		{"", "system", "dev", ""},
		{"", "", "dev", "dev"},
		{"", "", "system", ""},
		{"", "", "", ""},
	} {
		if got := resolve(c.inPath, c.ofUser, c.defaultTenant); got != c.want {
			t.Errorf("path %q, user %q, default %q: got %q, want %q", c.inPath, c.ofUser, c.defaultTenant, got, c.want)
		}
	}
}

func TestTenantIsTakenOutOfThePath(t *testing.T) {
	for _, c := range []struct{ path, tenant, short string }{
		{"/api/v1/tenants/t1/namespaces/ns-1/pods/pod1", "t1", "/api/v1/namespaces/ns-1/pods/pod1"},
		{"/api/v1/tenants/t1/persistentvolumes/pv1", "t1", "/api/v1/persistentvolumes/pv1"},
		{"/api/v1/tenants/system/namespaces/default/pods/pod1", "system", "/api/v1/namespaces/default/pods/pod1"},
		{"/api/v1/tenants/all/pods", "all", "/api/v1/pods"},
		{"/api/v1/watch/tenants/t1/pods", "t1", "/api/v1/watch/pods"},
		{"/apis/apps/v1/tenants/t1/namespaces/default/deployments", "t1",
			"/apis/apps/v1/namespaces/default/deployments"},
		{"/apis/apps/v1/tenants/t1/deployments/", "t1", "/apis/apps/v1/deployments/"},
		{"/api/v1/tenants/t1/namespaces/default/pods/web/proxy/", "t1", "/api/v1/namespaces/default/pods/web/proxy/"},
		{"/tenants/t1/api/v1/pods", "t1", "/api/v1/pods"},
		{"/tenants/t1/", "t1", "/"},
		{"/tenants/t1", "t1", "/"},
		{"/tenants/t1/openapi/v3", "t1", "/openapi/v3"},
		{"/tenants/t1/version", "t1", "/version"},
		// The Tenant objects themselves.
		{"/api/v1/tenants", "", "/api/v1/tenants"},
		{"/api/v1/tenants/t1", "", "/api/v1/tenants/t1"},
		{"/api/v1/tenants/t1/", "", "/api/v1/tenants/t1/"},
		{"/api/v1/tenants/t1/status", "", "/api/v1/tenants/t1/status"},
		{"/api/v1/watch/tenants/t1", "", "/api/v1/watch/tenants/t1"},
		// Custom resources that are called tenants.
		{"/apis/example.com/v2/tenants", "", "/apis/example.com/v2/tenants"},
		{"/apis/example.com/v2/tenants/big", "", "/apis/example.com/v2/tenants/big"},
		{"/apis/example.com/v2/namespaces/x/tenants/y/status", "",
			"/apis/example.com/v2/namespaces/x/tenants/y/status"},
		{"/tenants/t1/apis/example.com/v2/namespaces/x/tenants/y", "t1",
			"/apis/example.com/v2/namespaces/x/tenants/y"},
		// No tenant at all.
		{"/api", "", "/api"}, {"/apis/apps/v1", "", "/apis/apps/v1"}, {"/", "", "/"}, {"/tenants/", "", "/tenants/"},
		{"/healthz", "", "/healthz"},
	} {
		a := splitAddress(c.path)
		if a.tenant != c.tenant || a.path != c.short {
			t.Errorf("%s: tenant %q path %q, want %q %q", c.path, a.tenant, a.path, c.tenant, c.short)
		}
	}
}

func TestPathIsComposed(t *testing.T) {
	e := New(Options{})
	for _, c := range []struct{ path, want string }{
		{"/api/v1/namespaces/default/pods/web", "/api/v1/namespaces/default.t1/pods/web"},
		{"/api/v1/namespaces/default/pods/web/log", "/api/v1/namespaces/default.t1/pods/web/log"},
		{"/api/v1/namespaces/default/services/web/proxy/", "/api/v1/namespaces/default.t1/services/web/proxy/"},
		{"/api/v1/namespaces/default", "/api/v1/namespaces/default.t1"},
		{"/api/v1/namespaces/default/finalize", "/api/v1/namespaces/default.t1/finalize"},
		{"/api/v1/namespaces", "/api/v1/namespaces"},
		{"/api/v1/pods", "/api/v1/pods"},
		{"/api/v1/watch/namespaces/default/pods", "/api/v1/watch/namespaces/default.t1/pods"},
		{"/api/v1/persistentvolumes/pv1", "/api/v1/persistentvolumes/pv1.t1.tenant"},
		{"/api/v1/persistentvolumes/pv1/status", "/api/v1/persistentvolumes/pv1.t1.tenant/status"},
		{"/apis/rbac.authorization.k8s.io/v1/clusterroles/reader",
			"/apis/rbac.authorization.k8s.io/v1/clusterroles/reader.t1.tenant"},
		{"/apis/rbac.authorization.k8s.io/v1/clusterroles/admin",
			"/apis/rbac.authorization.k8s.io/v1/clusterroles/admin"},
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/admin",
			"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/admin.t1.tenant"},
		{"/apis/storage.k8s.io/v1/storageclasses/fast", "/apis/storage.k8s.io/v1/storageclasses/fast"},
		{"/api/v1/nodes/n1", "/api/v1/nodes/n1"},
		// A dot in a namespace never leads into another space.
		{"/api/v1/namespaces/default.t2/pods/web", "/api/v1/namespaces/default.t2.t1/pods/web"},
		{"/api/v1/persistentvolumes/pv1.t2.tenant", "/api/v1/persistentvolumes/pv1.t2.tenant.t1.tenant"},
	} {
		r, ok := parsePath(c.path)
		if !ok {
			t.Errorf("%s: not a resource", c.path)
			continue
		}
		e.find("t1", &r)
		if got := r.composed("t1", r.ownName()); got != c.want {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
		if got := r.composed(space.System, false); got != c.path {
			t.Errorf("%s: changed for the system space: %s", c.path, got)
		}
	}
	for _, path := range []string{"/", "/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/version",
		"/openapi/v3/apis/apps/v1", "/healthz/etcd"} {
		if r, ok := parsePath(path); ok {
			t.Errorf("%s: taken for a resource: %+v", path, r)
		}
	}
}

func TestWritingMethods(t *testing.T) {
	for method, want := range map[string]bool{
		http.MethodGet: false, http.MethodHead: false, http.MethodOptions: false,
		http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true, http.MethodDelete: true,
	} {
		if writes(method) != want {
			t.Errorf("%s: %v", method, !want)
		}
	}
}
