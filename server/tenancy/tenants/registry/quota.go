package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// ValidateQuota finds names of quotas that count objects which a space never has. What the
// API does not have built in may be defined later.
func ValidateQuota(quota map[string]resource.Quantity, path *field.Path) (errs field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(quota)) {
		of, err := tenantapi.QuotaOf(name)
		if err != nil || !of.Objects {
			continue // it has been found already, or is known
		}
		if problem := uncountable(of.Resource); problem != "" {
			errs = append(errs, field.Invalid(path, name, problem))
		}
	}
	return errs
}

// uncountable says why a space has no objects of a resource that count, and what would be
// right; "" if it can have them.
func uncountable(r schema.GroupResource) string {
	if strings.Contains(r.Group, ".") && !kinds.Groups()[r.Group] {
		return ""
	}
	k, ok := kinds.New().Resource(r.Group, r.Resource)
	switch {
	case ok && k.Class != kinds.Tenant:
		return fmt.Sprintf("a space has none of them: %s are %s", r, k.Class)
	case ok && isStored(k):
		return ""
	case ok:
		return fmt.Sprintf("%s do not count: they are not stored, or go by themselves", r)
	}
	var same, ofGroup []string
	for _, k := range kinds.Rows() {
		if k.Class != kinds.Tenant || !isStored(k) {
			continue
		}
		name := "count/" + schema.GroupResource{Group: k.Group, Resource: k.Resource}.String()
		if k.Resource == r.Resource {
			same = append(same, name)
		}
		if k.Group == r.Group {
			ofGroup = append(ofGroup, name)
		}
	}
	switch {
	case len(same) > 0:
		return "there is no such resource, but " + strings.Join(same, ", ")
	case len(ofGroup) > 0:
		return "there is no such resource; in its group there are " + strings.Join(ofGroup, ", ")
	}
	return fmt.Sprintf("there is no group %q; that of a custom resource has a domain", r.Group)
}

// isStored tells what is kept in the datastore from what is only answered. Events do not
// count: they go by themselves, and are bounded by a rate.
func isStored(k kinds.Kind) bool {
	switch k.Group {
	case "authentication.k8s.io", "authorization.k8s.io", "metrics.k8s.io":
		return false
	}
	return k.Resource != "events" && (k.Group != "" || k.Resource != tenantapi.UsageResource)
}
