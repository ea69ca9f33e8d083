package edge

import (
	"net/http/httptest"
	"testing"
)

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		method, url, verb string
		long              bool
	}{
		{"GET", "/api/v1/pods", "list", false},
		{"GET", "/api/v1/pods?watch=true", "watch", true},
		{"GET", "/api/v1/pods?watch=True", "watch", true},
		{"GET", "/api/v1/pods?watch=", "watch", true},
		{"GET", "/api/v1/pods?watch", "watch", true},
		{"GET", "/api/v1/pods?watch=false", "list", false},
		{"GET", "/api/v1/watch/namespaces/default/pods", "watch", true},
		{"GET", "/api/v1/namespaces/default/pods/web", "get", false},
		{"GET", "/api/v1/namespaces/default/pods/web?watch=true", "get", false}, // it does not watch
		{"POST", "/api/v1/namespaces/default/pods?watch=true", "create", false},
		{"PUT", "/api/v1/namespaces/default/pods/web", "update", false},
		{"PATCH", "/apis/apps/v1/namespaces/default/deployments/web", "patch", false},
		{"DELETE", "/api/v1/namespaces/default/pods/web", "delete", false},
		{"DELETE", "/api/v1/namespaces/default/pods", "deletecollection", false},
		{"GET", "/api/v1/namespaces/default/pods/web/log", "connect", true},
		{"POST", "/api/v1/namespaces/default/pods/web/exec", "connect", true},
		{"GET", "/apis/example.com/v1/namespaces/default/foos/x/log", "get", false},
		{"GET", "/openapi/v2", "get", false},
		{"POST", "/nowhere", "other", false},
		{"BREW", "/api/v1/pods", "other", false},
	} {
		if r := read(httptest.NewRequest(c.method, c.url, nil)); r.verb != c.verb || r.long != c.long {
			t.Errorf("%s %s is %s, long %v", c.method, c.url, r.verb, r.long)
		}
	}
}
