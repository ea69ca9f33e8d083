package allowances

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// mostItems bounds what a pod is compared with.
const mostItems = 64

// allowanceField is a field of spec.allow: a list, of ports if ports is set, or a flag.
type allowanceField struct {
	name  string // of the field
	list  *[]string
	ports bool
	flag  **bool
}

// below finds the field of an allowance, which all have but PodSecurity.
func below(a *tenantapi.TenantAllowances, key string) allowanceField {
	switch key {
	case VolumeTypes:
		return allowanceField{name: "volumeTypes", list: &a.VolumeTypes}
	case CSIDrivers:
		return allowanceField{name: "csiDrivers", list: &a.CSIDrivers}
	case HostPorts:
		return allowanceField{name: "hostPorts", list: &a.HostPorts, ports: true}
	case LoadBalancers:
		return allowanceField{name: "loadBalancerPorts", list: &a.LoadBalancerPorts, ports: true}
	case NodeNames:
		return allowanceField{name: "nodeNames", flag: &a.NodeNames}
	case Tolerations:
		return allowanceField{name: "tolerationKeys", list: &a.TolerationKeys}
	case PriorityClasses:
		return allowanceField{name: "priorityClasses", list: &a.PriorityClasses}
	case RuntimeClasses:
		return allowanceField{name: "runtimeClasses", list: &a.RuntimeClasses}
	case StorageClasses:
		return allowanceField{name: "storageClasses", list: &a.StorageClasses}
	case DeviceClasses:
		return allowanceField{name: "deviceClasses", list: &a.DeviceClasses}
	case DeviceAdminAccess:
		return allowanceField{name: "deviceAdminAccess", flag: &a.DeviceAdminAccess}
	}
	return allowanceField{}
}

// Field is where a Tenant and a template say an allowance.
func Field(key string) string {
	if key == PodSecurity {
		return "spec.podSecurity"
	}
	return "spec.allow." + name(key)
}

// name is that of a field of spec.allow.
func name(key string) string { return below(&tenantapi.TenantAllowances{}, key).name }

// Effective is what holds of an allowance, as it stands in an annotation, "" if nobody says it: the field of the
// Tenant goes before its annotation, and that before the field of its template, which is nil for none.
func Effective(t *tenantapi.Tenant, from *tenantapi.TenantTemplate, key string) string {
	if said := text(t.Spec.PodSecurity, t.Spec.Allow, key); said != "" {
		return said
	}
	if said := t.Annotations[key]; said != "" || from == nil {
		return said
	}
	return text(from.Spec.PodSecurity, from.Spec.Allow, key)
}

// text is an allowance of fields as it stands in an annotation, "" for none.
func text(podSecurity string, a *tenantapi.TenantAllowances, key string) string {
	if key == PodSecurity {
		return podSecurity
	}
	if a == nil {
		return ""
	}
	switch of := below(a, key); {
	case of.list != nil:
		return strings.Join(*of.list, ",")
	case of.flag != nil && *of.flag != nil:
		return strconv.FormatBool(**of.flag)
	}
	return ""
}

// Shown are all allowances that hold, for who reads the Tenant.
func Shown(t *tenantapi.Tenant, from *tenantapi.TenantTemplate) (podSecurity string, a *tenantapi.TenantAllowances) {
	a = &tenantapi.TenantAllowances{}
	some := false
	for _, key := range All() {
		value := Effective(t, from, key)
		if key == PodSecurity || value == "" {
			continue
		}
		some = true
		switch of := below(a, key); {
		case of.flag != nil:
			*of.flag = new(value == "true")
		case of.ports && value == "true":
			*of.list = []string{tenantapi.Everything}
		case of.ports && value == "false":
			*of.list = []string{tenantapi.None}
		case of.ports:
			*of.list = strings.Split(value, ",")
		default:
			if *of.list = ParseList(value).Items; len(*of.list) == 0 {
				*of.list = []string{tenantapi.None}
			}
		}
	}
	if podSecurity = Effective(t, from, PodSecurity); podSecurity == "" {
		podSecurity = "baseline"
	}
	if !some {
		return podSecurity, nil
	}
	return podSecurity, a
}

// Check finds what cannot be an allowance in the fields of a spec.
func Check(podSecurity string, a *tenantapi.TenantAllowances, spec *field.Path) (errs field.ErrorList) {
	if podSecurity != "" && !slices.Contains(levels(), podSecurity) {
		errs = append(errs, field.NotSupported(spec.Child("podSecurity"), podSecurity, levels()))
	}
	if a == nil {
		return errs
	}
	for _, key := range All() {
		of, path := below(a, key), spec.Child("allow", name(key))
		switch {
		case of.ports:
			errs = append(errs, checkItems(*of.list, path, wrongPort)...)
		case of.list != nil:
			errs = append(errs, checkItems(*of.list, path, func(item string) []string { return wrong(key, item) })...)
		}
		if key == RuntimeClasses && slices.Equal(*of.list, []string{tenantapi.None}) {
			errs = append(errs, field.Invalid(path, *of.list, "no pod could be made: limits.pods bounds them"))
		}
	}
	return errs
}

// checkItems looks at a list. Everything and None stand alone.
func checkItems(items []string, path *field.Path, wrong func(item string) []string) (errs field.ErrorList) {
	if n := len(items); n > mostItems {
		return field.ErrorList{field.TooMany(path, n, mostItems)}
	}
	seen := map[string]bool{}
	for i, item := range items {
		word := item == tenantapi.Everything || item == tenantapi.None
		switch {
		case word && len(items) > 1:
			errs = append(errs, field.Invalid(path.Index(i), item, "can only stand alone"))
		case word:
		case seen[item]:
			errs = append(errs, field.Duplicate(path.Index(i), item))
		default:
			for _, problem := range wrong(item) {
				errs = append(errs, field.Invalid(path.Index(i), item, problem))
			}
		}
		seen[item] = true
	}
	return errs
}

// wrong is what is wrong with an item of a list: nothing for what can be the name of one.
func wrong(key, item string) []string {
	switch key {
	case VolumeTypes:
		if !slices.Contains(Sources(), item) {
			return []string{noSource(item).Error()}
		}
		return nil
	case Tolerations:
		return validation.IsQualifiedName(item)
	case CSIDrivers: // the case of their letters is free
		return validation.IsDNS1123Subdomain(strings.ToLower(item))
	}
	return validation.IsDNS1123Subdomain(item)
}

func wrongPort(item string) []string {
	if _, err := ParsePorts(item); err != nil || item == "" || strings.ContainsAny(item, ", ") || item == "true" ||
		item == "false" {
		return []string{"want a port or a range of ports: 8080, 9000-9010"}
	}
	return nil
}

// Warnings say what has taken the place of annotations that are written: those that old has not.
func Warnings(t *tenantapi.Tenant, old map[string]string) (out []string) {
	for _, key := range All() {
		value, ok := t.Annotations[key]
		if was, had := old[key]; !ok || had && was == value {
			continue
		}
		warning := fmt.Sprintf("metadata.annotations[%s]: deprecated; use %s instead", key, Field(key))
		if text(t.Spec.PodSecurity, t.Spec.Allow, key) != "" {
			warning += ", which is set and goes before it"
		}
		out = append(out, warning)
	}
	return out
}
