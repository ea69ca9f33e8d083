package wire

import (
	"errors"
	"strings"
	"testing"

	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// TestKindIsWhatUpstreamReads: a body is translated as the kind that the API
// server takes it for, or refused.
func TestKindIsWhatUpstreamReads(t *testing.T) {
	r := Resource{Group: rbacName, Version: "v1", Resource: "rolebindings", Kind: "RoleBinding", Namespaced: true}
	const rest = `"metadata":{"name":"x","namespace":"default"},"subjects":[{"kind":"ServiceAccount","name":"s",` +
		`"namespace":"default"}]`
	for _, c := range []struct{ before, after string }{
		{`"kind":"RoleBinding","apiVersion":"rbac.authorization.k8s.io/v1",`, ``},
		{``, ``},
		{`"kind":"RoleBinding",`, ``},
		{`"kind":"RoleBinding","apiVersion":"",`, ``},
		{`"apiVersion":"","kind":"RoleBinding",`, ``},
		{`"kind":"RoleBinding","apiVersion":"/",`, ``},
		{`"kind":"RoleBinding","apiVersion":null,`, ``},
		{`"kind":"","apiVersion":"",`, ``},
		{`"kind":"","apiVersion":"rbac.authorization.k8s.io/v1",`, ``},
		{`"kind":"R\u006fleBinding","apiVersion":"rbac.authorization.k8s\u002eio/v1",`, ``},
		{`"KIND":"RoleBinding","APIVERSION":"rbac.authorization.k8s.io/v1",`, ``},
		{`"kind":"Foo","apiVersion":"foo/v1",`, `,"KIND":"RoleBinding","APIVERSION":"rbac.authorization.k8s.io/v1"`},
		{`"kind":"Foo","apiVersion":"foo/v1",`,
			`,"` + "\u212A" + `ind":"RoleBinding","apiVer` + "\u017F" + `ion":"rbac.authorization.k8s.io/v1"`},
		{`"kind":"Foo","apiVersion":"foo/v1",`,
			`,"\u212Aind":"RoleBinding","apiverSION":"rbac.authorization.k8s.io/v1"`},
	} {
		body := "{" + c.before + rest + c.after + "}"
		read, err := serializer.DefaultMetaFactory.Interpret([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if (read.Kind != "" && read.Kind != r.Kind) || (read.Version != "" && read.Group != r.Group) {
			t.Fatalf("%s is no %s for upstream: %v", body, r.Kind, read)
		}
		out, err := protoProjector("t1").JSON(In, r, []byte(body))
		if err != nil {
			if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "is the key") {
				t.Errorf("%s: %v", body, err)
			}
			continue
		}
		if strings.Count(string(out), `"default.t1"`) != 2 {
			t.Errorf("%s becomes %s", body, out)
		}
	}
}
