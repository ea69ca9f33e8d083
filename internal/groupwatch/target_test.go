package groupwatch

import (
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

func TestTargets(t *testing.T) {
	for path, want := range map[string]struct {
		tenant     string
		everything bool
	}{
		"/api/v1/pods":                                       {"", true},
		"/api/v1/pods?watch=true":                            {"", true},
		"/api/v1/pods?fieldSelector=metadata.name%3Da":       {"", true},
		"/api/v1/namespaces":                                 {"", true},
		"/apis/apps/v1/deployments":                          {"", true},
		"/api/v1/namespaces/default.t1/pods":                 {"t1", false},
		"/api/v1/namespaces/default.t1/pods/web":             {"t1", false},
		"/apis/apps/v1/namespaces/default.t1/deployments":    {"t1", false},
		"/api/v1/namespaces/kube-system/pods":                {"", false},
		"/api/v1/namespaces/default.t1":                      {"", false},
		"/api/v1/nodes/n1":                                   {"", false},
		"/api/v1/" + partitionapi.Resource:                   {"", false},
		"/api/v1/watch/pods":                                 {"", false},
		"/api/v1/watch/pods/web":                             {"", false},
		"/api/v1/namespaces/default.t1/pods/web/proxy/a/b/c": {"t1", false},
		"/api": {}, "/api/v1": {}, "/apis/apps/v1": {}, "/readyz": {}, "/prefix/api/v1/pods": {},
	} {
		req := httptest.NewRequest("GET", path, nil)
		if tenant, everything := target(req); tenant != want.tenant || everything != want.everything {
			t.Errorf("%s: %q, %t", path, tenant, everything)
		}
		// A server asks while it answers another request, whose context it uses.
		other := request.WithRequestInfo(req.Context(), &request.RequestInfo{IsResourceRequest: true,
			Path: "/api/v1/namespaces/default.t2/secrets", Namespace: "default.t2", Resource: "secrets",
			Parts: []string{"secrets"}, Verb: "list"})
		tenant, everything := target(req.WithContext(other))
		if tenant != want.tenant || everything != want.everything {
			t.Errorf("%s, for another request: %q, %t", path, tenant, everything)
		}
	}
}
