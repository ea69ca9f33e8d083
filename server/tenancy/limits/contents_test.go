package limits

import (
	"testing"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/tenants/contents"
)

func TestKeysAreObjects(t *testing.T) {
	for _, c := range []struct {
		layout space.Layout
		rest   string
		want   contents.Object
		ok     bool
	}{
		{space.Namespaced, "default/web", contents.Object{Namespace: "default.t1", Name: "web"}, true},
		{space.Namespaced, "web", contents.Object{}, false}, // of the system's namespace t1
		{space.ClusterScoped, "pv1", contents.Object{Name: "pv1.t1.tenant"}, true},
		{space.ClusterScoped, "a/b", contents.Object{}, false},
		{space.Namespaces, "default", contents.Object{Name: "default.t1"}, true},
		{anyLayout, "default/foo", contents.Object{Namespace: "default.t1", Name: "foo"}, true},
		{anyLayout, "foo", contents.Object{Name: "foo.t1.tenant"}, true},
	} {
		got, ok := place{stored: stored{layout: c.layout}}.object("t1", c.rest)
		if got != c.want || ok != c.ok {
			t.Errorf("%v %s: %+v, %v", c.layout, c.rest, got, ok)
		}
	}
}
