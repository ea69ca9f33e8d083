package templates

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// longest stands for the name of a tenant where what it makes is checked: every other name has room, too.
func longest() *tenantapi.Tenant {
	t := &tenantapi.Tenant{}
	t.Name = strings.Repeat("t", space.MaxTenant)
	return t
}

// readSecret is the Secret of a template, without what is in it.
func readSecret(s *tenantapi.TemplateSecret, v *values, at *field.Path) (Object, field.ErrorList) {
	kind, _ := KindCalled(KindSecret)
	content := &unstructured.Unstructured{Object: map[string]any{}}
	content.SetGroupVersionKind(kind.GroupVersionKind)
	content.SetName(s.Name)
	if s.Namespace == "" {
		return Object{}, field.ErrorList{namespaceRequired(at)}
	}
	content.SetNamespace(s.Namespace)
	if len(s.Labels) > 0 {
		content.SetLabels(s.Labels)
	}
	metadata, _ := content.Object["metadata"].(map[string]any)
	if labels, ok := metadata["labels"]; ok {
		if errs := checkMap(labels, at.Child("labels")); len(errs) > 0 {
			return Object{}, errs
		}
		if len(s.Labels) > mostLabels {
			return Object{}, field.ErrorList{field.TooMany(at.Child("labels"), len(s.Labels), mostLabels)}
		}
	}
	o, errs := fill(kind, content, v, at, at)
	for _, err := range errs {
		err.Field = strings.Replace(err.Field, at.Child("metadata").String(), at.String(), 1)
	}
	if len(errs) == 0 {
		errs = append(errs, checkLabels(o.GetLabels(), v, at.Child("labels"))...)
	}
	tenant := v.tenant
	if tenant == nil {
		tenant = longest()
	}
	var problems field.ErrorList
	o.From, problems = source(s.From, tenant, at.Child("from"))
	return o, append(errs, problems...)
}

// mostLabels bounds the labels of a Secret.
const mostLabels = 16

// checkLabels checks labels whose values are known: without a tenant, those that have no placeholder.
func checkLabels(labels map[string]string, v *values, at *field.Path) (errs field.ErrorList) {
	known := map[string]string{}
	for key, value := range labels {
		if v.tenant == nil && strings.Contains(value, opening) {
			value = ""
		}
		known[key] = value
	}
	return metav1validation.ValidateLabels(known, at)
}

// source is the Secret that one of a tenant is a copy of. Labels and annotations of the tenant do not choose
// it: who writes these need not be who says which Secrets tenants get.
func source(
	from tenantapi.TemplateSecretSource, tenant *tenantapi.Tenant, at *field.Path,
) (out tenantapi.TemplateSecretSource, errs field.ErrorList) {
	v := &values{tenant: tenant, nameOnly: true}
	for _, f := range []struct {
		name, value string
		to          *string
		check       func(string) []string
	}{
		// A label has no dot: it is no namespace of a tenant.
		{"namespace", from.Namespace, &out.Namespace, validation.IsDNS1123Label},
		{"name", from.Name, &out.Name, validation.IsDNS1123Subdomain},
	} {
		if f.value == "" {
			errs = append(errs, field.Required(at.Child(f.name), "name the Secret of the system space"))
			continue
		}
		if i := strings.Index(f.value, opening); i >= 0 && f.value[i:] != tenantName {
			errs = append(errs, field.Invalid(at.Child(f.name), f.value, "can have "+tenantName+" at its end alone: "+
				"with more behind it, it could be the Secret of another tenant"))
			continue
		}
		value, err := v.expand(f.value)
		if err != nil {
			errs = append(errs, field.Invalid(at.Child(f.name), f.value, err.Error()))
			continue
		}
		for _, problem := range f.check(value) {
			errs = append(errs, field.Invalid(at.Child(f.name), f.value, problem))
		}
		*f.to = value
	}
	return out, errs
}

// CopyOf is a Secret that was made for a template, without what is in it. Its labels are not known.
func CopyOf(ref tenantapi.TemplateObject, template string) Object {
	kind, _ := KindCalled(KindSecret)
	content := &unstructured.Unstructured{Object: map[string]any{}}
	content.SetGroupVersionKind(kind.GroupVersionKind)
	content.SetNamespace(ref.Namespace)
	content.SetName(ref.Name)
	content.SetLabels(map[string]string{Label: template})
	o := Object{Kind: kind, Unstructured: content}
	o.From.Namespace, o.From.Name, _ = strings.Cut(ref.From, "/")
	return o
}

// Sources are the Secrets of the system space that a tenant has copies of, by its name.
func Sources(t *tenantapi.TenantTemplateSpec, tenant *tenantapi.Tenant) (out []tenantapi.TemplateSecretSource) {
	for i := range t.Secrets {
		if from, errs := source(t.Secrets[i].From, tenant, nil); len(errs) == 0 {
			out = append(out, from)
		}
	}
	return out
}

// CheckType refuses the types of Secrets that say who somebody is in the space that they are in, or mean
// something to the system. Those of Kubernetes that do not are known; so a new one is refused.
func CheckType(is corev1.SecretType) error {
	domain, _, qualified := strings.Cut(string(is), "/")
	systems := func(of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) }
	switch {
	case slices.Contains([]corev1.SecretType{corev1.SecretTypeDockercfg, corev1.SecretTypeDockerConfigJson,
		corev1.SecretTypeBasicAuth, corev1.SecretTypeSSHAuth, corev1.SecretTypeTLS}, is):
		return nil
	case qualified && slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "a4s.io"}, systems):
		return fmt.Errorf("a Secret of the type %s is not copied: it is the system's", is)
	}
	return nil
}
