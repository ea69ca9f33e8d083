package registry

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

func TestValidateTemplate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*tenantapi.TenantTemplate)
		field  string // of the one error that is wanted
	}{
		"valid":   {func(*tenantapi.TenantTemplate) {}, ""},
		"a dot":   {func(t *tenantapi.TenantTemplate) { t.Name = "a.b" }, "metadata.name"},
		"a limit": {func(t *tenantapi.TenantTemplate) { t.Spec.Limits.Pods = limit(-1) }, "spec.limits.pods"},
		"a label": {func(t *tenantapi.TenantTemplate) {
			t.Spec.Labels = map[string]string{"a b": ""}
		}, "spec.labels"},
		"at a time":    {func(t *tenantapi.TenantTemplate) { t.Spec.AtATime = 101 }, "spec.atATime"},
		"none a time":  {func(t *tenantapi.TenantTemplate) { t.Spec.AtATime = -1 }, "spec.atATime"},
		"fewer failed": {func(t *tenantapi.TenantTemplate) { t.Spec.MaxFailed = -1 }, "spec.maxFailed"},
		"not an object": {func(t *tenantapi.TenantTemplate) {
			t.Spec.Objects[0].Raw = []byte(`{}`)
		}, "spec.objects[0]"},
		"a quota": {func(t *tenantapi.TenantTemplate) {
			t.Spec.Limits = &tenantapi.TenantLimits{
				Quota: map[string]resource.Quantity{"count/nodes": resource.MustParse("1")}}
		}, "spec.limits.quota"},
	} {
		in := &tenantapi.TenantTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gold"},
			Spec: tenantapi.TenantTemplateSpec{Limits: &tenantapi.TenantLimits{Pods: limit(3)},
				Objects: []runtime.RawExtension{{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":` +
					`{"name":"a","namespace":"default"}}`)}}}}
		was := in.DeepCopy()
		tc.change(in)
		errs := checkTemplate(as(), in, nil)
		if tc.field == "" && len(errs) == 0 {
			continue
		}
		if len(errs) != 1 || tc.field == "" || !strings.HasPrefix(errs[0].Field, tc.field) {
			t.Errorf("%s: %v, want an error of %q", name, errs, tc.field)
		}
		if name == "a dot" {
			continue
		}
		if errs := checkTemplate(as(), in, was); len(errs) != 1 {
			t.Errorf("%s, in a change: %v", name, errs)
		}
		// What an older version took can still change its status, and go.
		if errs := checkTemplate(as(), in, in.DeepCopy()); len(errs) != 0 {
			t.Errorf("%s, as it was: %v", name, errs)
		}
	}
}

func TestTemplateGenerations(t *testing.T) {
	in := &tenantapi.TenantTemplate{Status: tenantapi.TenantTemplateStatus{Tenants: 3}}
	prepareNewTemplate(in)
	if in.Generation != 1 || in.Status.Tenants != 0 {
		t.Errorf("new: %+v", in)
	}
	was := in.DeepCopy()
	was.Status.Tenants = 2
	in.Labels, in.Status.Tenants = map[string]string{"a": "b"}, 9
	prepareChangedTemplate(in, was)
	if in.Generation != 1 || in.Status.Tenants != 2 {
		t.Errorf("with a label: %+v", in)
	}
	in.Spec.Labels = map[string]string{"a": "b"}
	if prepareChangedTemplate(in, was); in.Generation != 2 {
		t.Errorf("changed: %d", in.Generation)
	}
}

// TestTheExampleIsValid: a test of spaces applies it.
func TestTheExampleIsValid(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/examples/tenants/team.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var in tenantapi.TenantTemplate
	if err := yaml.UnmarshalStrict(text, &in); err != nil {
		t.Fatal(err)
	}
	if errs := checkTemplate(as(), &in, nil); len(errs) > 0 || len(in.Spec.Objects) == 0 {
		t.Errorf("%v, %d objects", errs, len(in.Spec.Objects))
	}
}
