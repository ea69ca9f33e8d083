package templates

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// reserved begins the names of labels and annotations that mean something to a4s.
const reserved = "a4s.io/"

// Label is on what a template made, with the name of the template, so that its changes are
// seen. It gives no right: whose an object is stands in the status of the Tenant.
const Label = reserved + "tenant-template"

// Object is one of a template, for one tenant.
type Object struct {
	Kind Kind
	*unstructured.Unstructured
	// From is the Secret of the system space that a Secret is a copy of. What is in it is not known here.
	From tenantapi.TemplateSecretSource
	// metadata is where its name stands in the template.
	metadata *field.Path
}

// Ref names it.
func (o Object) Ref() tenantapi.TemplateObject {
	return tenantapi.TemplateObject{Kind: o.Kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Check finds what no tenant could get.
func Check(t *tenantapi.TenantTemplateSpec, path *field.Path) field.ErrorList {
	objects, secrets := path.Child("objects"), path.Child("secrets")
	if n := len(t.Objects) + len(t.Secrets); n > tenantapi.MaxTemplateObjects {
		if len(t.Objects) <= tenantapi.MaxTemplateObjects {
			objects = secrets
		}
		return field.ErrorList{field.TooMany(objects, n, tenantapi.MaxTemplateObjects)}
	}
	if size := Size(t); size > tenantapi.MaxTemplateBytes {
		return field.ErrorList{field.Forbidden(objects, fmt.Sprintf("the objects have %d bytes together, at most %d "+
			"are possible", size, tenantapi.MaxTemplateBytes))}
	}
	_, errs := read(t, &values{}, path)
	return errs
}

// Size is how long the objects are together that stand in a template, and what it says of Secrets.
func Size(t *tenantapi.TenantTemplateSpec) (size int) {
	for i := range t.Objects {
		size += len(t.Objects[i].Raw)
	}
	for i := range t.Secrets {
		s := &t.Secrets[i]
		size += len(s.Namespace) + len(s.Name) + len(s.From.Namespace) + len(s.From.Name)
		for key, value := range s.Labels {
			size += len(key) + len(value)
		}
	}
	return size
}

// Render are the objects of a template for a tenant, in the order in which they are made.
func Render(t *tenantapi.TenantTemplate, tenant *tenantapi.Tenant) ([]Object, error) {
	out, errs := read(&t.Spec, &values{tenant: tenant}, field.NewPath("spec"))
	if len(errs) > 0 {
		return nil, fmt.Errorf("the TenantTemplate %s: %w", t.Name, errs[0])
	}
	for _, o := range out {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[Label] = t.Name
		o.SetLabels(labels)
	}
	order := map[string]int{}
	for i, k := range Kinds() {
		order[k.Kind] = i
	}
	slices.SortStableFunc(out, func(a, b Object) int { return order[a.Kind.Kind] - order[b.Kind.Kind] })
	return out, nil
}

// read parses objects and Secrets, and gives their placeholders values.
func read(t *tenantapi.TenantTemplateSpec, v *values, path *field.Path) ([]Object, field.ErrorList) {
	var out []Object
	var errs field.ErrorList
	for i := range t.Objects {
		at := path.Child("objects").Index(i)
		content := &unstructured.Unstructured{}
		if err := content.UnmarshalJSON(t.Objects[i].Raw); err != nil {
			errs = append(errs, field.Invalid(at, "", "must be an object of the API: "+err.Error()))
			continue
		}
		kind, problems := checkShape(content.Object, at)
		if len(problems) == 0 {
			var o Object
			o, problems = fill(kind, content, v, at, at.Child("metadata"))
			out = append(out, o)
		}
		errs = append(errs, problems...)
	}
	for i := range t.Secrets {
		o, problems := readSecret(&t.Secrets[i], v, path.Child("secrets").Index(i))
		out, errs = append(out, o), append(errs, problems...)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return out, checkTogether(out)
}

// fill gives the placeholders of an object values. What depends on these is checked only where there is a
// tenant.
func fill(
	kind Kind, content *unstructured.Unstructured, v *values, at, metadata *field.Path,
) (o Object, errs field.ErrorList) {
	filled, errs := v.in(content.Object, at)
	if len(errs) > 0 {
		return o, errs
	}
	o = Object{Kind: kind, metadata: metadata,
		Unstructured: &unstructured.Unstructured{Object: filled.(map[string]any)}}
	if v.tenant != nil || !strings.Contains(content.GetName()+" "+content.GetNamespace(), opening) {
		errs = checkNames(o, metadata)
	}
	return o, errs
}

// checkShape finds the kind of an object, and what is wrong with it whatever the placeholders are.
func checkShape(content map[string]any, at *field.Path) (Kind, field.ErrorList) {
	name, _ := content["kind"].(string)
	version, _ := content["apiVersion"].(string)
	kind, ok := KindCalled(name)
	if name == KindSecret {
		return kind, field.ErrorList{field.Forbidden(at, "whoever may read templates could read the Secret: name one "+
			"of the system space in spec.secrets, of which each tenant gets a copy")}
	}
	if !ok || kind.GroupVersion().String() != version {
		return kind, field.ErrorList{field.Invalid(at, version+" "+name, "must be one of "+names())}
	}
	var errs field.ErrorList
	if _, ok := content["status"]; ok {
		errs = append(errs, field.Forbidden(at.Child("status"), "the status is not the template's"))
	}
	meta, ok := content["metadata"].(map[string]any)
	if !ok {
		return kind, append(errs, field.Required(at.Child("metadata"), "name the object"))
	}
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		switch value := meta[key]; key {
		case "name", "namespace":
			if _, ok := value.(string); !ok {
				errs = append(errs, field.Invalid(at.Child("metadata", key), value, "must be a string"))
			}
		case "labels", "annotations":
			errs = append(errs, checkMap(value, at.Child("metadata", key))...)
		default:
			errs = append(errs, field.Forbidden(at.Child("metadata", key),
				"the metadata has name, namespace, labels and annotations"))
		}
	}
	namespace, _ := meta["namespace"].(string)
	switch {
	case kind.Namespaced && namespace == "":
		errs = append(errs, namespaceRequired(at.Child("metadata")))
	case !kind.Namespaced && namespace != "":
		errs = append(errs, field.Forbidden(at.Child("metadata", "namespace"), "a "+name+" is in no namespace"))
	}
	_, aggregates := content["aggregationRule"]
	if _, ok := content["rules"]; ok && aggregates && name == "ClusterRole" {
		errs = append(errs, field.Forbidden(at.Child("rules"),
			"the rules of a ClusterRole with an aggregationRule are those of others: the system writes them"))
	}
	return kind, errs
}

func namespaceRequired(metadata *field.Path) *field.Error {
	return field.Required(metadata.Child("namespace"), "name the namespace of the object")
}

// checkMap checks labels or annotations.
func checkMap(value any, at *field.Path) (errs field.ErrorList) {
	of, ok := value.(map[string]any)
	if !ok {
		return field.ErrorList{field.Invalid(at, value, "must have names and values")}
	}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if domain, _, _ := strings.Cut(key, "/"); strings.Contains(key, "/") &&
			(domain+"/" == reserved || strings.HasSuffix(domain, "."+strings.TrimSuffix(reserved, "/"))) {
			errs = append(errs, field.Forbidden(at.Key(key), "names of "+reserved+" are the system's"))
		}
		if _, ok := of[key].(string); !ok {
			errs = append(errs, field.Invalid(at.Key(key), of[key], "must be a string"))
		}
	}
	return errs
}

// checkNames checks what placeholders may have made of the names of an object.
func checkNames(o Object, at *field.Path) (errs field.ErrorList) {
	name := o.GetName()
	check := validation.IsDNS1123Subdomain
	switch o.Kind.Kind {
	case KindNamespace:
		check = validation.IsDNS1123Label
	case "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding":
		// They can have other characters, but nobody needs them here.
		check = func(name string) []string {
			return validation.IsDNS1123Subdomain(strings.ToLower(strings.ReplaceAll(name, ":", "-")))
		}
	}
	switch {
	case name == "":
		errs = append(errs, field.Required(at.Child("name"), "name the object"))
	case o.Kind.Kind == "ClusterRole" && kinds.SharedClusterRole(name):
		errs = append(errs, field.Forbidden(at.Child("name"), "all spaces share the ClusterRole "+name))
	case !o.Kind.Namespaced && slices.Contains(ofAdministrators(), name):
		errs = append(errs, field.Forbidden(at.Child("name"), "it makes the administrators of the space"))
	case o.Kind.Kind == "ConfigMap" && slices.Contains(ofSystem(), name):
		errs = append(errs, field.Forbidden(at.Child("name"), "the system writes the ConfigMap "+name))
	default:
		for _, problem := range check(name) {
			errs = append(errs, field.Invalid(at.Child("name"), name, problem))
		}
	}
	// A placeholder can be of an empty value.
	if namespace := o.GetNamespace(); o.Kind.Namespaced && namespace == "" {
		errs = append(errs, namespaceRequired(at))
	} else if namespace != "" {
		for _, problem := range validation.IsDNS1123Label(namespace) {
			errs = append(errs, field.Invalid(at.Child("namespace"), namespace, problem))
		}
	}
	return errs
}

// checkTogether checks what objects are to each other.
func checkTogether(objects []Object) (errs field.ErrorList) {
	seen, namespaces := map[tenantapi.TemplateObject]bool{}, everySpace()
	for _, o := range objects {
		if o.Kind.Kind == KindNamespace {
			namespaces = append(namespaces, o.GetName())
		}
	}
	for _, o := range objects {
		at, ref := o.metadata, o.Ref()
		if seen[ref] {
			errs = append(errs, field.Duplicate(at.Child("name"), ref.String()))
		}
		seen[ref] = true
		if of := o.GetNamespace(); of != "" && !slices.Contains(namespaces, of) {
			errs = append(errs, field.Invalid(at.Child("namespace"), of, "must be a namespace that every space has ("+
				strings.Join(everySpace(), ", ")+") or a Namespace of the template: a user of the tenant could "+
				"delete others"))
		}
	}
	return errs
}
