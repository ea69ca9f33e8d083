package origin

import (
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRequestsAreParsed(t *testing.T) {
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	watchPath := schema.GroupVersionResource{Version: "v1", Resource: "watch"}
	for target, want := range map[string]Request{
		"GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn1": {Verb: VerbList, Resource: podsResource},
		"GET /api/v1/pods?watch=1":                          {Verb: VerbWatch, Resource: podsResource},
		"GET /prefix/api/v1/nodes/n1?watch=1":               {Verb: VerbGet, Resource: nodeResource, Name: "n1"},
		"PATCH /api/v1/nodes/n1/status": {Verb: VerbPatch, Resource: nodeResource, Name: "n1",
			Subresource: "status"},
		"POST /api/v1/nodes": {Verb: VerbCreate, Resource: nodeResource},
		"DELETE /api/v1/namespaces/default.t1/pods/a": {Verb: VerbDelete, Resource: podsResource,
			Namespace: "default.t1", Name: "a"},
		"GET /api/v1/namespaces/a/pods/b/proxy/api/v1/pods": {Verb: VerbGet, Resource: podsResource, Namespace: "a",
			Name: "b", Subresource: "proxy/api/v1/pods"},
		"GET /apis/node.k8s.io/v1/runtimeclasses/vm": {Verb: VerbGet, Resource: classResource, Name: "vm"},
		"GET /apis/storage.k8s.io/v1/csidrivers":     {Verb: VerbList, Resource: driverResource},
		"GET /apis/example.com/v1/namespaces/a/api/v1/status": {Verb: VerbGet, Namespace: "a", Name: "v1",
			Subresource: "status"},
		"GET /api/v1/namespaces/a":        {Verb: VerbGet, Resource: namespaces, Name: "a"},
		"GET /api/v1/namespaces/a/status": {Verb: VerbGet, Resource: namespaces, Name: "a", Subresource: "status"},
		"PUT /api/v1/namespaces/a/finalize": {Verb: VerbUpdate, Resource: namespaces, Name: "a",
			Subresource: "finalize"},
		"GET /api/v1/namespaces?watch=true": {Verb: VerbWatch, Resource: namespaces},
		// The verb in the path, as in the past: no collection that anybody has here.
		"GET /api/v1/watch/pods":                             {Verb: VerbGet, Resource: watchPath, Name: "pods"},
		"GET /api/v1/watch/namespaces/a/pods/b":              {Verb: VerbGet, Resource: watchPath, Name: "pods"},
		"GET /api/v1/watch/nodes/n1?watch=1":                 {Verb: VerbGet, Resource: watchPath, Name: "nodes"},
		"HEAD /api/v1/pods":                                  {Resource: podsResource},
		"GET /api/v1/nodes?fieldSelector=metadata.name%3Dn1": {Verb: VerbList, Resource: nodeResource},
		"GET /api": {Verb: VerbList}, "GET /apis/apps": {Verb: VerbList}, "HEAD /healthz": {},
	} {
		method, path, _ := strings.Cut(target, " ")
		got := parse(httptest.NewRequest(method, path, nil))
		if want.Resource.Resource == "" {
			want.Resource = got.Resource // none that is looked at here
		}
		if got.Verb != want.Verb || got.Resource != want.Resource || got.Namespace != want.Namespace ||
			got.Name != want.Name || got.Subresource != want.Subresource {
			t.Errorf("%s: %+v, want %+v", target, got, want)
		}
	}
	r := httptest.NewRequest("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=2", nil)
	r.Header.Set("Accept", runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	got := parse(r)
	if got.Options.FieldSelector != "spec.nodeName=n1" || got.Options.Limit != 2 ||
		got.Accept != runtime.ContentTypeProtobuf || got.ContentType != runtime.ContentTypeJSON {
		t.Errorf("got %+v", got)
	}
	if got := parse(httptest.NewRequest("GET", "/api/v1/pods?watch=1&limit=x", nil)); got.OptionsErr == nil ||
		got.Options.Watch {
		t.Errorf("a query that cannot be parsed: %+v", got)
	}
}
