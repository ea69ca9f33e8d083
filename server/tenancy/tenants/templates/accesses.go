package templates

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// CheckAccesses finds what is wrong with the accesses of a template. check finds it of one, as it is for a
// tenant.
func CheckAccesses(
	accesses []tenantapi.TemplateAccess, check func(*tenantapi.TenantAccess) field.ErrorList, path *field.Path,
) (errs field.ErrorList) {
	if len(accesses) > tenantapi.MaxTemplateAccesses {
		return field.ErrorList{field.TooMany(path, len(accesses), tenantapi.MaxTemplateAccesses)}
	}
	names, secrets := map[string]bool{}, map[string]bool{}
	for i := range accesses {
		a, at := &accesses[i], path.Index(i)
		problems := checkAccess(a, at)
		if len(problems) == 0 {
			sample, wrong := access(a, longest())
			if len(wrong) == 0 {
				wrong = check(sample)
			}
			problems = moved(wrong, at)
		}
		errs = append(errs, problems...)
		secret := a.Spec.Secret.Namespace + "/" + a.Spec.Secret.Name
		if names[a.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), a.Name))
		}
		if secrets[secret] {
			errs = append(errs, field.Duplicate(at.Child("spec", "secret"), secret))
		}
		names[a.Name], secrets[secret] = true, true
	}
	return errs
}

// checkAccess checks that an access and its Secret are each tenant's own.
func checkAccess(a *tenantapi.TemplateAccess, at *field.Path) (errs field.ErrorList) {
	const own = "must have " + tenantName + " in it: each tenant has its own"
	if !strings.Contains(a.Name, tenantName) {
		errs = append(errs, field.Invalid(at.Child("name"), a.Name, own))
	}
	secret := a.Spec.Secret
	if !strings.Contains(secret.Name, tenantName) && !strings.Contains(secret.Namespace, tenantName) {
		errs = append(errs, field.Invalid(at.Child("spec", "secret", "name"), secret.Name, own))
	}
	if a.Spec.Tenant != tenantName {
		errs = append(errs, field.Invalid(at.Child("spec", "tenant"), a.Spec.Tenant, "must be "+tenantName))
	}
	return errs
}

// moved are the errors of a sample as those of what stands in the template.
func moved(errs field.ErrorList, at *field.Path) field.ErrorList {
	sample := longest().Name
	for _, err := range errs {
		err.Field = at.String() + "." + strings.TrimPrefix(err.Field, "metadata.")
		if value, ok := err.BadValue.(string); ok {
			err.BadValue = strings.ReplaceAll(value, sample, tenantName)
		}
		err.Detail = strings.ReplaceAll(err.Detail, sample, tenantName)
	}
	return errs
}

// Accesses are those of a template for a tenant. All that they have of it is its name: who writes labels of
// tenants does not choose who gets in, nor where the credentials are. Two that differ by their placeholders can be the
// same for one tenant, and would take each other's place for ever.
func Accesses(t *tenantapi.TenantTemplate, tenant *tenantapi.Tenant) (out []*tenantapi.TenantAccess, _ error) {
	for i := range t.Spec.Access {
		a, errs := access(&t.Spec.Access[i], tenant)
		for _, other := range out {
			if len(errs) > 0 {
				break
			}
			if other.Name == a.Name {
				errs = append(errs, field.Duplicate(field.NewPath("name"), a.Name))
			} else if is, of := a.Spec.Secret, other.Spec.Secret; is.Namespace == of.Namespace && is.Name == of.Name {
				errs = append(errs, field.Duplicate(field.NewPath("spec", "secret"), is.Namespace+"/"+is.Name))
			}
		}
		if len(errs) > 0 {
			return nil, fmt.Errorf("the TenantTemplate %s: spec.access[%d]: %w", t.Name, i, errs[0])
		}
		out = append(out, a)
	}
	return out, nil
}

// AccessNames are the names of those of a template for a tenant, also where these cannot be made.
func AccessNames(t *tenantapi.TenantTemplate, tenant *tenantapi.Tenant) (names []string) {
	for i := range t.Spec.Access {
		if a, errs := access(&t.Spec.Access[i], tenant); len(errs) == 0 {
			names = append(names, a.Name)
		}
	}
	return names
}

// access is one for a tenant.
func access(a *tenantapi.TemplateAccess, tenant *tenantapi.Tenant) (*tenantapi.TenantAccess, field.ErrorList) {
	content := map[string]any{}
	if err := recode(a, &content); err != nil {
		return nil, field.ErrorList{field.InternalError(nil, err)}
	}
	filled, errs := (&values{tenant: tenant, nameOnly: true}).in(content, nil)
	if len(errs) > 0 {
		return nil, errs
	}
	var made tenantapi.TemplateAccess
	if err := recode(filled, &made); err != nil {
		return nil, field.ErrorList{field.InternalError(nil, err)}
	}
	out := &tenantapi.TenantAccess{Spec: made.Spec}
	out.Name = made.Name
	return out, nil
}

// recode reads from as another type, by its JSON.
func recode(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encoding an access: %w", err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("reading an access: %w", err)
	}
	return nil
}
