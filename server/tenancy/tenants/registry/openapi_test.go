package registry

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// TestEveryFieldIsExplained: kubectl explain has each field of what administrators decide, with what it is, and knows
// no other.
func TestEveryFieldIsExplained(t *testing.T) {
	models := Definitions(func(name string) spec.Ref { return spec.MustCreateRef(name) })
	for _, of := range []interface{ OpenAPIModelName() string }{tenantapi.TenantSpec{}, tenantapi.TenantAllowances{},
		tenantapi.TenantScheduling{}, tenantapi.TenantStatus{}, tenantapi.EffectiveSpec{},
		tenantapi.TenantTemplateSpec{}, tenantapi.TenantTemplateStatus{}, tenantapi.TemplateSecret{},
		tenantapi.TemplateSecretSource{}, tenantapi.TemplateAccess{}, tenantapi.AppliedTemplate{},
		tenantapi.TemplateObject{}} {
		properties := models[of.OpenAPIModelName()].Schema.Properties
		fields := reflect.TypeOf(of)
		for i := range fields.NumField() {
			name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
			if p, ok := properties[name]; !ok || p.Description == "" {
				t.Errorf("%s.%s is not explained", fields.Name(), name)
			}
		}
		if len(properties) != fields.NumField() {
			t.Errorf("%s has %d fields, and %d are explained", fields.Name(), fields.NumField(), len(properties))
		}
	}
}
