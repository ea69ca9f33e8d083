package registry

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestListsOfImages: what a list may have, and where the mistake is.
func TestListsOfImages(t *testing.T) {
	many := make([]string, mostImages+1)
	for i := range many {
		many[i] = fmt.Sprint("docker.io/", i)
	}
	for _, c := range []struct {
		images []string
		tenant string
		field  string
	}{
		{nil, "t1", ""},
		{nil, space.System, ""},
		{[]string{"docker.io", "docker.io/library", "docker.io/library/nginx", "registry.example.com",
			"registry.example.com:5000/a/b", "localhost", "localhost:5000", "[::1]:5000/a", "192.0.2.1"}, "t1", ""},
		{[]string{"docker.io", "docker.io"}, "t1", "spec.images[1]"},
		{[]string{"nginx"}, "t1", "spec.images[0]"},
		{[]string{"library/nginx"}, "t1", "spec.images[0]"},
		{[]string{"index.docker.io/library"}, "t1", "spec.images[0]"},
		{[]string{"registry.example.com/"}, "t1", "spec.images[0]"},
		{[]string{"registry.example.com/app:1"}, "t1", "spec.images[0]"},
		{[]string{"Registry.example.com"}, "t1", "spec.images[0]"},
		{[]string{"https://registry.example.com"}, "t1", "spec.images[0]"},
		{[]string{"*.example.com"}, "t1", "spec.images[0]"},
		{[]string{"registry.example.com/*"}, "t1", "spec.images[0]"},
		{[]string{""}, "t1", "spec.images[0]"},
		{many, "t1", "spec.images"},
		{[]string{"docker.io"}, space.System, "spec.images"},
	} {
		tenant := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: c.tenant}}
		setDefaults(tenant)
		old := tenant.DeepCopy()
		tenant.Spec.Images = c.images
		errs := check(as(), tenant, old)
		if c.field == "" && len(errs) > 0 || c.field != "" && (len(errs) != 1 || errs[0].Field != c.field) {
			t.Errorf("%.60q of %s: %v, want an error of %q", c.images, c.tenant, errs, c.field)
		}
	}
}
