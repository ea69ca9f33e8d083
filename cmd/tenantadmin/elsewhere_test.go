package tenantadmin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestElsewhere: who lists tenants is told when other partitions have more of them.
func TestElsewhere(t *testing.T) {
	list := &tenantapi.TenantList{Items: []tenantapi.Tenant{{ObjectMeta: metav1.ObjectMeta{Name: "system"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}}
	for _, c := range []struct {
		placed int64
		code   int
		want   string
	}{{0, 200, ""}, {2, 200, ""}, {3, 200, "The cluster has 3"}, {3, 503, ""}, {3, 404, ""}} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			out := partitionapi.TenantPlacementList{}
			out.APIVersion, out.Kind = "v1", "TenantPlacementList"
			if c.placed > 0 {
				rest := c.placed - 1
				out.Items, out.RemainingItemCount = make([]partitionapi.TenantPlacement, 1), &rest
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.code)
			_ = json.NewEncoder(w).Encode(out)
		}))
		a, err := New(&rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
		if err != nil {
			t.Fatal(err)
		}
		got := a.Elsewhere(t.Context(), list)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%d with %d placements: %q, want %q", c.code, c.placed, got, c.want)
		}
		s.Close()
	}
}
