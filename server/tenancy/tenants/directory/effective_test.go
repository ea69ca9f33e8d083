package directory

import (
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// TestWhatATemplateSaysHolds from the beginning, where the Tenant says nothing; what cannot be read allows nothing.
func TestWhatATemplateSaysHolds(t *testing.T) {
	gold := &tenantapi.TenantTemplate{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: tenantapi.TemplateKind},
		ObjectMeta: metav1.ObjectMeta{Name: "gold"}, Spec: tenantapi.TenantTemplateSpec{PodSecurity: "restricted",
			Images: []string{"docker.io"}, Scheduling: &tenantapi.TenantScheduling{Exclusive: true,
				NodeSelector: map[string]string{"pool": "gold"}},
			Allow: &tenantapi.TenantAllowances{StorageClasses: []string{"fast"}}}}
	says := func() (int, any) { return http.StatusOK, gold }
	own := kept()
	own.Spec.PodSecurity, own.Spec.Images = "baseline", []string{tenantapi.Everything}
	own.Spec.Scheduling = &tenantapi.TenantScheduling{}
	alone := kept()
	alone.Spec.Template = ""
	for name, c := range map[string]struct {
		t                        *tenantapi.Tenant
		level, classes, template string
		images                   []string
		exclusive                bool
	}{
		"the template": {kept(), "restricted", "fast", "gold", []string{"docker.io"}, true},
		"the Tenant":   {own, "baseline", "fast", "", nil, false},
		"nobody":       {alone, "", "", "", nil, false},
	} {
		d := beforeTheWatch(t, c.t, says)
		level, err := d.Allowance(t.Context(), "t", allowances.PodSecurity)
		if level != c.level || err != nil {
			t.Errorf("%s: the level %q, %v", name, level, err)
		}
		classes, err := d.Allowance(t.Context(), "t", allowances.StorageClasses)
		if classes != c.classes || err != nil {
			t.Errorf("%s: the classes %q, %v", name, classes, err)
		}
		s, template, err := d.Scheduling(t.Context(), "t")
		if template != c.template || err != nil || (s != nil && s.Exclusive) != c.exclusive {
			t.Errorf("%s: %+v by %q, %v", name, s, template, err)
		}
		images, err := d.Images(t.Context(), "t")
		if !slices.Equal(images, c.images) || err != nil {
			t.Errorf("%s: images of %q, %v", name, images, err)
		}
		shown := d.Effective(c.t)
		if !slices.Equal(shown.Images, c.images) || (shown.Scheduling != nil) != (s != nil) ||
			c.level != "" && shown.PodSecurity != c.level {
			t.Errorf("%s: shown as %+v", name, shown)
		}
	}
	d := beforeTheWatch(t, kept(), func() (int, any) { return http.StatusInternalServerError, metav1.Status{} })
	if _, err := d.Allowance(t.Context(), "t", allowances.PodSecurity); err == nil {
		t.Error("a template that cannot be read says nothing")
	}
	if _, _, err := d.Scheduling(t.Context(), "t"); err == nil {
		t.Error("a template that cannot be read keeps no nodes")
	}
	if _, err := d.Images(t.Context(), "t"); err == nil {
		t.Error("a template that cannot be read has no images")
	}
}
