package spaces_test

import (
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/a4s-io/a4s/tests/nstest"
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
			// Controllers write to the CRD, too.
			if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
				crd, err := s.definitions(t).Get(t.Context(), "foos."+gvr.Group, metav1.GetOptions{})
				if err != nil {
					return err
				}
				added := *crd.Spec.Versions[0].DeepCopy()
				added.Name, added.Storage = version, false
				crd.Spec.Versions = append(crd.Spec.Versions, added)
				_, err = s.definitions(t).Update(t.Context(), crd, metav1.UpdateOptions{})
				return err
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
