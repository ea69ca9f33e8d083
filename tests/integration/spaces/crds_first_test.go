package spaces_test

import (
	"net/http"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/rewrite"
)

// TestFirstListOfAVersion: who has just defined a version of a custom resource lists and
// watches it without being told to come again.
func TestFirstListOfAVersion(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	for _, s := range []*space{p.bareTenant(t, "a"), p.as(t, "system", p.Admin)} {
		gvr := s.define(t, definition("first."+s.name+".example.com"))
		for _, version := range []string{"v2", "v3", "v4"} {
			if _, err := rewrite.Object(t.Context(), s.definitions(t), "foos."+gvr.Group,
				func(crd *apiextensionsv1.CustomResourceDefinition) {
					added := *crd.Spec.Versions[0].DeepCopy()
					added.Name, added.Storage = version, false
					crd.Spec.Versions = append(crd.Spec.Versions, added)
				}); err != nil {
				t.Fatal(err)
			}
			path := "/apis/" + gvr.Group + "/" + version + "/foos"
			if version == "v4" {
				path += "?watch=1&timeoutSeconds=1"
			}
			for until := time.Now().Add(deadline); ; {
				code, body := get(t, s.config, path)
				if code == http.StatusOK {
					break
				}
				// It is not served yet.
				if code != http.StatusNotFound || time.Now().After(until) {
					t.Fatalf("%s of %s: %d %s", path, s.name, code, body)
				}
			}
		}
	}
}
