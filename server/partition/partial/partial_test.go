package partial

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	filters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/internal/space"
)

// TestWarning: who lists everything with kubectl is told that this is not all, when it is not.
func TestWarning(t *testing.T) {
	for name, c := range map[string]struct {
		path, agent, tenant string
		alone, want         bool
	}{
		"pods of all namespaces":           {path: "/api/v1/pods", want: true},
		"of a node":                        {path: "/api/v1/pods?fieldSelector=spec.nodeName%3Dn", want: true},
		"tenants":                          {path: "/api/v1/tenants", want: true},
		"of all spaces":                    {path: "/api/v1/pods", tenant: space.All, want: true},
		"cluster roles":                    {path: "/apis/rbac.authorization.k8s.io/v1/clusterroles", want: true},
		"one partition":                    {path: "/api/v1/pods", alone: true},
		"a program":                        {path: "/api/v1/pods", agent: "operator/v1"},
		"a watch":                          {path: "/api/v1/pods?watch=true"},
		"one namespace":                    {path: "/api/v1/namespaces/default/pods"},
		"one tenant":                       {path: "/api/v1/tenants/t"},
		"of a tenant":                      {path: "/api/v1/pods", tenant: "t1"},
		"nodes, of which there are copies": {path: "/api/v1/nodes"},
		"where tenants are":                {path: "/api/v1/tenantplacements"},
		"no resource":                      {path: "/version"},
	} {
		t.Run(name, func(t *testing.T) {
			ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
			h := Handler(ok, "tp2", func() bool { return !c.alone })
			h = filters.WithWarningRecorder(h)
			h = filters.WithRequestInfo(h, &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
				GrouplessAPIPrefixes: sets.NewString("api")})
			ctx := context.Background()
			if c.tenant != "" {
				ctx = space.WithTenant(ctx, c.tenant)
			}
			req := httptest.NewRequest(http.MethodGet, c.path, nil).WithContext(ctx)
			if req.Header.Set("User-Agent", "kubectl/v1.37.2 (linux/amd64)"); c.agent != "" {
				req.Header.Set("User-Agent", c.agent)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if got := w.Header().Get("Warning") != ""; got != c.want || w.Code != http.StatusOK {
				t.Errorf("%d, warning %q", w.Code, w.Header().Get("Warning"))
			}
		})
	}
}
