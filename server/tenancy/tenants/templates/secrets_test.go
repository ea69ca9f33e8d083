package templates

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

func secret(change func(*tenantapi.TemplateSecret)) []tenantapi.TemplateSecret {
	s := tenantapi.TemplateSecret{Namespace: "default", Name: "registry",
		From: tenantapi.TemplateSecretSource{Namespace: "platform", Name: "registry"}}
	if change != nil {
		change(&s)
	}
	return []tenantapi.TemplateSecret{s}
}

func TestCheckSecrets(t *testing.T) {
	type s = tenantapi.TemplateSecret
	for name, c := range map[string]struct {
		change func(*s)
		want   string // "" for none
	}{
		"valid": {nil, ""},
		"placeholders": {func(s *s) {
			s.Name, s.From.Name = "r-$(tenant.labels['plan'])", "r-$(tenant.name)"
		}, ""},
		"no name":           {func(s *s) { s.Name = "" }, "secrets[0].name: Required"},
		"no namespace":      {func(s *s) { s.Namespace = "" }, "secrets[0].namespace: Required"},
		"another space":     {func(s *s) { s.Namespace = "default.b" }, "secrets[0].namespace: Invalid"},
		"one of the tenant": {func(s *s) { s.Namespace = "web" }, "secrets[0].namespace: Invalid"},
		"our labels": {func(s *s) {
			s.Labels = map[string]string{"a4s.io/tenant": "b"}
		}, "secrets[0].labels[a4s.io/tenant]"},
		"a label":  {func(s *s) { s.Labels = map[string]string{"a": "$(tenant.name)"} }, ""},
		"no label": {func(s *s) { s.Labels = map[string]string{"a": "b c"} }, "secrets[0].labels: Invalid"},
		"no name of a label": {func(s *s) {
			s.Labels = map[string]string{"a b": "$(tenant.name)"}
		}, "secrets[0].labels: Invalid"},
		"many labels": {func(s *s) {
			s.Labels = map[string]string{}
			for i := range 17 {
				s.Labels[strings.Repeat("a", i+1)] = "b"
			}
		}, "secrets[0].labels: Too many: 17"},
		"from more than a name": {func(s *s) { s.From.Name = "db-$(tenant.name)-admin" }, "at its end alone"},
		"from two names":        {func(s *s) { s.From.Name = "$(tenant.name)$(tenant.name)" }, "at its end alone"},
		"from a namespace":      {func(s *s) { s.From.Namespace = "of-$(tenant.name)" }, ""},
		"from nothing":          {func(s *s) { s.From.Name = "" }, "secrets[0].from.name: Required"},
		"from no namespace":     {func(s *s) { s.From.Namespace = "" }, "secrets[0].from.namespace: Required"},
		"from a tenant":         {func(s *s) { s.From.Namespace = "default.b" }, "secrets[0].from.namespace: Invalid"},
		"from a path":           {func(s *s) { s.From.Name = "../x" }, "secrets[0].from.name: Invalid"},
		"from by a label":       {func(s *s) { s.From.Name = "$(tenant.labels['a'])" }, "at its end alone"},
		"from a long name": {func(s *s) {
			s.From.Namespace = strings.Repeat("x", 50) + "$(tenant.name)"
		}, "from.namespace"},
		"no such value":      {func(s *s) { s.Name = "$(tenant.uid)" }, "no placeholder"},
		"a name that is one": {func(s *s) { s.Name = "a b" }, "secrets[0].name: Invalid"},
	} {
		err := Check(&tenantapi.TenantTemplateSpec{Secrets: secret(c.change)}, nil).ToAggregate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	both := append(secret(nil), secret(nil)...)
	if err := Check(&tenantapi.TenantTemplateSpec{Secrets: both}, nil).ToAggregate(); err == nil ||
		!strings.Contains(err.Error(), "secrets[1].name: Duplicate") {
		t.Errorf("twice: %v", err)
	}
	long := secret(func(s *s) { s.Labels = map[string]string{"a": strings.Repeat("x", tenantapi.MaxTemplateBytes)} })
	if err := Check(&tenantapi.TenantTemplateSpec{Secrets: long}, nil).ToAggregate(); err == nil ||
		!strings.Contains(err.Error(), "bytes together") {
		t.Errorf("long: %v", err)
	}
	many := make([]tenantapi.TemplateSecret, tenantapi.MaxTemplateObjects)
	objects := raw(configMap(named, ""))
	if err := Check(&tenantapi.TenantTemplateSpec{Objects: objects, Secrets: many}, nil).ToAggregate(); err == nil ||
		!strings.Contains(err.Error(), "secrets: Too many: 65") {
		t.Errorf("with the objects too many: %v", err)
	}
}

// TestRenderSecrets: they are made last, and say what they are copies of.
func TestRenderSecrets(t *testing.T) {
	template := &tenantapi.TenantTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gold"}}
	template.Spec.Secrets = secret(func(s *tenantapi.TemplateSecret) {
		s.Name, s.From.Name = "registry-$(tenant.labels['plan'])", "registry-$(tenant.name)"
		s.Labels = map[string]string{"plan": "$(tenant.labels['plan'])"}
	})
	template.Spec.Objects = raw(configMap(named, ""))
	got, err := Render(template, acme())
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	want := tenantapi.TemplateSecretSource{Namespace: "platform", Name: "registry-acme"}
	s := got[1]
	if s.Ref().String() != "Secret default/registry-gold" || s.From != want || s.GetLabels()["plan"] != "gold" ||
		s.GetLabels()[Label] != "gold" || s.GetAPIVersion() != "v1" {
		t.Errorf("%+v", s)
	}
	if from := Sources(&template.Spec, acme()); len(from) != 1 || from[0] != want {
		t.Errorf("the sources are %v", from)
	}
}

func TestTypesOfSecrets(t *testing.T) {
	for typ, want := range map[corev1.SecretType]bool{
		"": true, corev1.SecretTypeOpaque: true, corev1.SecretTypeTLS: true, corev1.SecretTypeDockerConfigJson: true,
		corev1.SecretTypeBasicAuth: true, "helm.sh/release.v1": true, "mine": true, "notkubernetes.io/x": true,
		corev1.SecretTypeServiceAccountToken: false, corev1.SecretTypeBootstrapToken: false,
		"kubernetes.io/new": false, "x.k8s.io/y": false, "a4s.io/x": false,
	} {
		if err := CheckType(typ); (err == nil) != want {
			t.Errorf("%q: %v", typ, err)
		}
	}
}
