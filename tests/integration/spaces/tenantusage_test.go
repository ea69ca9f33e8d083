package spaces_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

const usagePath = "/api/v1/tenantusages"

// TestTenantUsage: who may look at a space reads its limits and what it uses of them, as the
// administrators of the cluster do in the Tenant, and those of no other space.
func TestTenantUsage(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	p.bounded(t, "a", `{"storage":"3Gi","quota":{"count/jobs.batch":"3"}}`)
	p.bounded(t, "b", `{"quota":{"count/foos.other.example.com":"3"}}`)
	if err := makeJob(t.Context(), a, "default", "one"); err != nil {
		t.Fatal(err)
	}
	p.quotas(t, "a") // they are counted
	p.quotas(t, "b")
	t.Run("is that of the Tenant", func(t *testing.T) { testUsageOfTenant(t, p, a) })
	t.Run("who reads it", func(t *testing.T) { testUsageReaders(t, p, a, b) })
	t.Run("is only read", func(t *testing.T) { testUsageIsRead(t, a) })
	t.Run("tables and documents", func(t *testing.T) { testUsageShown(t, a) })
}

// usages reads a list.
func usages(t *testing.T, cfg *rest.Config, path string) []tenantapi.TenantUsage {
	t.Helper()
	code, body := get(t, cfg, path)
	var list tenantapi.TenantUsageList
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", path, code, body, err)
	}
	return list.Items
}

func testUsageOfTenant(t *testing.T, p *plane, a *space) {
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	tenant, err := tenants.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, u := range tenant.Status.Usage {
		names = append(names, u.Name)
	}
	for who, path := range map[*rest.Config]string{a.config: usagePath, p.Admin: "/tenants/a" + usagePath} {
		items := usages(t, who, path)
		if len(items) != 1 || items[0].Name != tenantapi.UsageName {
			t.Fatalf("%s: %+v", path, items)
		}
		var own []string
		for _, u := range items[0].Usage {
			own = append(own, u.Name)
			if u.Counts == "" {
				t.Errorf("%s does not say what it counts", u.Name)
			}
			if u.Name == "quota.count/jobs.batch" && (u.Used.Value() != 1 || u.Limit.Value() != 3) ||
				u.Name == "storage" && u.Limit.String() != "3Gi" {
				t.Errorf("%s: %s of %s", u.Name, u.Used.String(), u.Limit.String())
			}
		}
		if !slices.Equal(own, names) || !slices.Contains(own, "quota.count/jobs.batch") {
			t.Errorf("%s has %q, the Tenant %q", path, own, names)
		}
	}
	if items := usages(t, p.Admin, usagePath); len(items) > 0 {
		t.Errorf("the system space has %+v", items)
	}
	if code, body := get(t, p.Admin, usagePath+"/usage.a.tenant"); code != http.StatusNotFound {
		t.Errorf("by a composite name: %d %s", code, body)
	}
}

func testUsageReaders(t *testing.T, p *plane, a, b *space) {
	reads := func(cfg *rest.Config) bool {
		code, body := get(t, cfg, usagePath+"/usage")
		if code != http.StatusOK && code != http.StatusForbidden {
			t.Errorf("%d %s", code, body)
		}
		return code == http.StatusOK
	}
	for _, role := range []string{"view", "edit", "admin"} {
		user := p.user(t, role+"er", []string{"tenant:a"}, nil)
		if reads(user) {
			t.Errorf("%ser reads it without a role", role)
		}
		if _, err := a.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role + "ers"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: role + "er"}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the role "+role+" to read it", func(context.Context) (bool, error) { return reads(user), nil })
		for _, path := range []string{"/api/v1/tenants/b/tenantusages", "/tenants/b" + usagePath} {
			if code, body := get(t, user, path); code != http.StatusForbidden {
				t.Errorf("%ser gets %s: %d %s", role, path, code, body)
			}
		}
	}
	for _, name := range []string{"usage.b.tenant", "b", "usage.b", "usage.a.tenant"} {
		if code, body := get(t, a.config, usagePath+"/"+name); code != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	if items := usages(t, b.config, usagePath); len(items) != 1 ||
		!slices.ContainsFunc(items[0].Usage, func(u tenantapi.LimitUsage) bool {
			return u.Name == "quota.count/foos.other.example.com"
		}) {
		t.Errorf("of b: %+v", items)
	}
}

func testUsageIsRead(t *testing.T, a *space) {
	const object = `{"apiVersion":"v1","kind":"TenantUsage","metadata":{"name":"usage"},"usage":[]}`
	for method, path := range map[string]string{http.MethodPost: usagePath, http.MethodPut: usagePath + "/usage",
		http.MethodDelete: usagePath + "/usage"} {
		if code, body := do(t, a.config, method, path, object, nil); code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d %s", method, code, body)
		}
	}
}

func testUsageShown(t *testing.T, a *space) {
	for _, path := range []string{usagePath, usagePath + "/usage"} {
		code, body := do(t, a.config, http.MethodGet, path, "",
			[]string{"Accept: application/json;as=Table;v=v1;g=meta.k8s.io"})
		var table metav1.Table
		if err := json.Unmarshal([]byte(body), &table); err != nil || code != http.StatusOK {
			t.Fatalf("%d %s, %v", code, body, err)
		}
		if !slices.ContainsFunc(table.Rows, func(r metav1.TableRow) bool {
			return len(r.Cells) == 4 && r.Cells[0] == "storage" && r.Cells[1] == "0" && r.Cells[2] == "3Gi" &&
				r.Cells[3] == "what claims of volumes request"
		}) || strings.Contains(body, ".a.tenant") {
			t.Errorf("%s", body)
		}
		code, body = do(t, a.config, http.MethodGet, path, "", []string{"Accept: application/vnd.kubernetes.protobuf"})
		if code != http.StatusOK || !strings.Contains(body, "quota.count/jobs.batch") ||
			strings.Contains(body, ".a.tenant") {
			t.Errorf("in protobuf: %d %q", code, body)
		}
	}
	_, resources, err := a.client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, list := range resources {
		for _, r := range list.APIResources {
			if list.GroupVersion == "v1" && r.Name == tenantapi.UsageResource {
				found = slices.Equal(r.ShortNames, []string{"tu"}) && r.Kind == "TenantUsage" &&
					slices.Equal(r.Verbs, []string{"get", "list"}) && !r.Namespaced
			}
		}
	}
	if code, body := get(t, a.config, "/openapi/v3/api/v1"); !found || code != http.StatusOK ||
		!strings.Contains(body, "io.a4s.api.core.v1.TenantUsage") {
		t.Errorf("in discovery: %v, in OpenAPI: %d", found, code)
	}
}
