package directory

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// beforeTheWatch is a directory that knows nothing yet, and asks an API with one tenant; answer is that of
// questions for its template, with a code.
func beforeTheWatch(t *testing.T, tenant *tenantapi.Tenant, answer func() (int, any)) *Directory {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, body := http.StatusOK, any(tenant)
		switch {
		case strings.Contains(r.URL.Path, tenantapi.Templates):
			code, body = answer()
		case !strings.HasSuffix(r.URL.Path, "/"+tenant.Name):
			code, body = http.StatusInternalServerError, metav1.Status{}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(body) //nolint:errcheck // the client fails then
	}))
	t.Cleanup(server.Close)
	d, err := New(&rest.Config{Host: server.URL}, interning.New())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func kept() *tenantapi.Tenant {
	return &tenantapi.Tenant{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: tenantapi.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: tenantapi.TenantSpec{Template: "gold"},
		Status: tenantapi.TenantStatus{Template: &tenantapi.AppliedTemplate{Name: "gold",
			Objects: []tenantapi.TemplateObject{{Kind: "ConfigMap", Namespace: "default", Name: "c", UID: "u"}}}}}
}

// TestKeeperOfUnknownTenants: who has not heard of a tenant yet asks, and does not let pass what cannot be
// answered.
func TestKeeperOfUnknownTenants(t *testing.T) {
	maps := schema.GroupResource{Resource: "configmaps"}
	d := beforeTheWatch(t, kept(), nil)
	template, object, err := d.Keeper(t.Context(), "t", maps, "default.t", "c")
	if template != "gold" || object != "ConfigMap default/c" || err != nil {
		t.Errorf("%q keeps %q, %v", template, object, err)
	}
	if _, _, err := d.Keeper(t.Context(), "u", maps, "default.u", "c"); err == nil {
		t.Error("one that cannot be read keeps nothing")
	}
	if _, _, err := d.Keeper(t.Context(), "u", schema.GroupResource{Resource: "pods"}, "default.u", "c"); err != nil {
		t.Errorf("what no template can have is asked for: %v", err)
	}
	deleted := kept()
	now := metav1.Now()
	deleted.DeletionTimestamp = &now
	d = beforeTheWatch(t, deleted, nil)
	if template, _, err := d.Keeper(t.Context(), "t", maps, "default.t", "c"); template != "" || err != nil {
		t.Errorf("one that is being deleted: %q, %v", template, err)
	}
}

// TestTemplatesAreAskedForOnce before the watch is there, and limits that cannot be read are an error.
func TestTemplatesAreAskedForOnce(t *testing.T) {
	var questions atomic.Int64
	code := http.StatusOK
	d := beforeTheWatch(t, kept(), func() (int, any) {
		questions.Add(1)
		return code, &tenantapi.TenantTemplate{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: tenantapi.TemplateKind},
			ObjectMeta: metav1.ObjectMeta{Name: "gold"}}
	})
	d.remember = time.Hour
	for range 3 {
		if got, err := (Bounded{d}).Get(t.Context(), "t"); err != nil || got.Name != "t" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if d.Template("gold") == nil || d.Template("silver") != nil {
		t.Error("the answer is not remembered")
	}
	if n := questions.Load(); n != 1 {
		t.Errorf("%d questions", n)
	}
	d = beforeTheWatch(t, kept(), func() (int, any) { return http.StatusInternalServerError, metav1.Status{} })
	_, err := (Bounded{d}).Get(t.Context(), "t")
	if err == nil || !strings.Contains(err.Error(), "TenantTemplate gold") {
		t.Errorf("a template that cannot be read: %v", err)
	}
	if _, err := d.Get(t.Context(), "t"); err != nil {
		t.Errorf("the tenant alone: %v", err)
	}
}
