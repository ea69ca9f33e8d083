package templates

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

const (
	// opening begins a placeholder, which ends with closing. What begins otherwise, $(date) for
	// instance, is text.
	opening, closing = "$(tenant.", ")"
	// escaped is a placeholder that is text: $$(tenant.name) becomes $(tenant.name).
	escaped = "$" + opening
	// tenantName is the placeholder of the name.
	tenantName = opening + "name" + closing
)

// values are what placeholders stand for. Without a tenant they are only checked, and stay.
type values struct {
	tenant *tenantapi.Tenant
	// nameOnly refuses all but the name, for what decides who gets what.
	nameOnly bool
	// taken counts the bytes of all values, against objects that grow without a bound.
	taken int
}

// in returns a value of JSON with the values of its placeholders: in texts, not in names of fields.
func (v *values) in(value any, path *field.Path) (any, field.ErrorList) {
	switch value := value.(type) {
	case string:
		text, err := v.expand(value)
		if err != nil {
			return nil, field.ErrorList{field.Invalid(path, value, err.Error())}
		}
		return text, nil
	case []any:
		out := make([]any, len(value))
		var errs field.ErrorList
		for i := range value {
			var more field.ErrorList
			out[i], more = v.in(value[i], path.Index(i))
			errs = append(errs, more...)
		}
		return out, errs
	case map[string]any:
		out := make(map[string]any, len(value))
		var errs field.ErrorList
		for key, of := range value {
			at := path.Child(key)
			if strings.Contains(key, opening) {
				errs = append(errs, field.Invalid(path, key, "placeholders have no values in names of fields"))
			}
			var more field.ErrorList
			out[key], more = v.in(of, at)
			errs = append(errs, more...)
		}
		return out, errs
	}
	return value, nil
}

func (v *values) expand(text string) (string, error) {
	var out strings.Builder
	for {
		i := strings.Index(text, opening)
		if i < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if strings.HasPrefix(text[max(i-1, 0):], escaped) {
			out.WriteString(text[:i-1] + opening)
			text = text[i+len(opening):]
			continue
		}
		out.WriteString(text[:i])
		name, rest, found := strings.Cut(text[i+len(opening):], closing)
		if !found {
			return "", fmt.Errorf("the placeholder %s has no end", text[i:])
		}
		value, err := v.of(name)
		if err != nil {
			return "", err
		}
		if v.tenant == nil {
			value = opening + name + closing
		}
		if v.taken += len(value); v.taken > tenantapi.MaxTemplateBytes {
			return "", fmt.Errorf("the values of all placeholders have more than %d bytes", tenantapi.MaxTemplateBytes)
		}
		out.WriteString(value)
		text = rest
	}
}

// of is the value of a placeholder.
func (v *values) of(name string) (string, error) {
	tenant := v.tenant
	if tenant == nil {
		tenant = &tenantapi.Tenant{}
	}
	if name == "name" {
		return tenant.Name, nil
	}
	if v.nameOnly {
		return "", fmt.Errorf("%s%s%s cannot stand here, only %s", opening, name, closing, tenantName)
	}
	for _, of := range []string{"labels", "annotations"} {
		key, ok := strings.CutPrefix(name, of+"['")
		if !ok {
			continue
		}
		if key, ok = strings.CutSuffix(key, "']"); !ok || key == "" || strings.ContainsAny(key, "'[]") {
			break
		}
		from := tenant.Labels
		if of == "annotations" {
			from = tenant.Annotations
		}
		value, ok := from[key]
		if !ok && v.tenant != nil {
			return "", fmt.Errorf("the Tenant %s has no %s %q", tenant.Name, strings.TrimSuffix(of, "s"), key)
		}
		return value, nil
	}
	return "", fmt.Errorf("there is no placeholder %s%s%s, only $(tenant.name), $(tenant.labels['KEY']) and "+
		"$(tenant.annotations['KEY']); $$(tenant... is text", opening, name, closing)
}
