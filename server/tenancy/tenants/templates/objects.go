package templates

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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
}

// Ref names it.
func (o Object) Ref() tenantapi.TemplateObject {
	return tenantapi.TemplateObject{Kind: o.Kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Check finds what no tenant could get.
func Check(objects []runtime.RawExtension, path *field.Path) field.ErrorList {
	if len(objects) > tenantapi.MaxTemplateObjects {
		return field.ErrorList{field.TooMany(path, len(objects), tenantapi.MaxTemplateObjects)}
	}
	size := 0
	for i := range objects {
		size += len(objects[i].Raw)
	}
	if size > tenantapi.MaxTemplateBytes {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("the objects have %d bytes together, at most %d are "+
			"possible", size, tenantapi.MaxTemplateBytes))}
	}
	_, errs := read(objects, &values{}, path)
	return errs
}

// Render are the objects of a template for a tenant, in the order in which they are made.
func Render(t *tenantapi.TenantTemplate, tenant *tenantapi.Tenant) ([]Object, error) {
	out, errs := read(t.Spec.Objects, &values{tenant: tenant}, field.NewPath("spec", "objects"))
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

// read parses objects and gives their placeholders values. What depends on these is checked
// only where there is a tenant.
func read(objects []runtime.RawExtension, v *values, path *field.Path) ([]Object, field.ErrorList) {
	var out []Object
	var errs field.ErrorList
	for i := range objects {
		at := path.Index(i)
		content := &unstructured.Unstructured{}
		if err := content.UnmarshalJSON(objects[i].Raw); err != nil {
			errs = append(errs, field.Invalid(at, "", "must be an object of the API: "+err.Error()))
			continue
		}
		kind, problems := checkShape(content.Object, at)
		if len(problems) > 0 {
			errs = append(errs, problems...)
			continue
		}
		filled, problems := v.in(content.Object, at)
		if len(problems) > 0 {
			errs = append(errs, problems...)
			continue
		}
		out = append(out, Object{kind, &unstructured.Unstructured{Object: filled.(map[string]any)}})
		if v.tenant != nil || !strings.Contains(content.GetName()+" "+content.GetNamespace(), opening) {
			errs = append(errs, checkNames(out[len(out)-1], at.Child("metadata"))...)
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return out, checkTogether(out, path)
}

// checkShape finds the kind of an object, and what is wrong with it whatever the placeholders are.
func checkShape(content map[string]any, at *field.Path) (Kind, field.ErrorList) {
	name, _ := content["kind"].(string)
	version, _ := content["apiVersion"].(string)
	kind, ok := KindCalled(name)
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
func checkTogether(objects []Object, path *field.Path) (errs field.ErrorList) {
	seen, namespaces := map[tenantapi.TemplateObject]bool{}, everySpace()
	for _, o := range objects {
		if o.Kind.Kind == KindNamespace {
			namespaces = append(namespaces, o.GetName())
		}
	}
	for i, o := range objects {
		at, ref := path.Index(i).Child("metadata"), o.Ref()
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
