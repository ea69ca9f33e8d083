package edge

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/a4s-io/a4s/internal/space"
)

// TestWhoSeesServiceGroups: the answers that may have the endpoints of the API in them
// as the cluster has them, to users of the system, where the server has a group.
func TestWhoSeesServiceGroups(t *testing.T) {
	for _, c := range []struct {
		path, user string
		want       bool
	}{
		{"/api/v1/namespaces/default/endpoints/kubernetes", space.System, true},
		{"/api/v1/namespaces/default/endpoints", space.System, true},
		{"/api/v1/namespaces/default/endpoints?watch=1", space.System, true},
		{"/api/v1/watch/namespaces/default/endpoints/kubernetes", space.System, true},
		{"/tenants/system/api/v1/namespaces/default/endpoints/kubernetes", space.System, true},
		{"/api/v1/namespaces/default/endpoints/web", space.System, false},
		{"/api/v1/namespaces/default.t1/endpoints/kubernetes", space.System, false},
		{"/api/v1/endpoints", space.System, false},
		{"/api/v1/namespaces/default/services/kubernetes", space.System, false},
		{"/apis/example.com/v1/namespaces/default/endpoints/kubernetes", space.System, false},
		{"/tenants/t1/api/v1/namespaces/default/endpoints/kubernetes", space.System, false},
		{"/tenants/all/api/v1/endpoints", space.System, false},
		{"/healthz", space.System, false},
		{"/api/v1/namespaces/default/endpoints/kubernetes", "t1", false},
		{"/tenants/system/api/v1/namespaces/default/endpoints/kubernetes", "t1", false},
	} {
		req := httptest.NewRequest(http.MethodGet, c.path, nil)
		r := read(req)
		r.identify(userOf(c.user), req.Header)
		if got := New(Options{Group: "0"}).showsGroups(r); got != c.want {
			t.Errorf("%s by a user of %s: %t", c.path, c.user, got)
		}
		if New(Options{}).showsGroups(r) {
			t.Errorf("%s by a user of %s: shown without a group", c.path, c.user)
		}
	}
}
