package registry

import (
	"context"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/apiregistry"
)

// maxBound is the longest bound of a range, in characters.
const maxBound = 63

// bounds are of the characters that names can have, and of capital letters, with which
// the seed writes bounds that lie before all names.
var bounds = regexp.MustCompile(`^[A-Za-z0-9.-]*$`)

// newStrategy decides what a configuration may be.
func newStrategy() apiregistry.Strategy[*partitionapi.DataPartitionConfig] {
	return apiregistry.Strategy[*partitionapi.DataPartitionConfig]{
		Unconditional: true,
		PrepareNew:    func(c *partitionapi.DataPartitionConfig) { c.Generation = 1 },
		PrepareChanged: func(c, was *partitionapi.DataPartitionConfig) {
			c.Generation = was.Generation
			if !sameRange(c, was) {
				c.Generation++
			}
		},
		Check: func(_ context.Context, c, _ *partitionapi.DataPartitionConfig) field.ErrorList {
			return validate(c)
		},
	}
}

func validate(c *partitionapi.DataPartitionConfig) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(c.Name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), c.Name, problem))
	}
	group := field.NewPath("serviceGroupId")
	if c.ServiceGroupID == "" {
		errs = append(errs, field.Required(group, "name the service group that owns the tenants"))
	} else {
		for _, problem := range validation.IsDNS1123Label(c.ServiceGroupID) {
			errs = append(errs, field.Invalid(group, c.ServiceGroupID, problem))
		}
	}
	return append(append(errs, validateRange(c)...), validateTenants(c)...)
}

func validateRange(c *partitionapi.DataPartitionConfig) field.ErrorList {
	var errs field.ErrorList
	start, end := field.NewPath("rangeStart"), field.NewPath("rangeEnd")
	for path, value := range map[*field.Path]string{start: c.RangeStart, end: c.RangeEnd} {
		switch {
		case len(value) > maxBound:
			errs = append(errs, field.TooLong(path, value, maxBound))
		case !bounds.MatchString(value):
			errs = append(errs, field.Invalid(path, value,
				"want letters, digits, '.' and '-', as names of tenants have"))
		}
	}
	switch {
	case c.IsRangeEndValid && c.RangeEnd == "":
		errs = append(errs, field.Required(end,
			"name the end of the range, or leave isRangeEndValid away for a range without an end"))
	case !c.IsRangeStartValid || !c.IsRangeEndValid || c.RangeStart <= c.RangeEnd: // equal for no tenant
	default:
		errs = append(errs, field.Invalid(end, c.RangeEnd,
			fmt.Sprintf("must not come before rangeStart, %q, in the order of bytes", c.RangeStart)))
	}
	return errs
}

func validateTenants(c *partitionapi.DataPartitionConfig) field.ErrorList {
	var errs field.ErrorList
	tenants := field.NewPath("tenants")
	if len(c.Tenants) > partitionapi.MaxTenants {
		return append(errs, field.TooMany(tenants, len(c.Tenants), partitionapi.MaxTenants))
	}
	seen := map[string]bool{}
	for i, name := range c.Tenants {
		switch err := space.ValidateTenant(name); {
		case err != nil:
			errs = append(errs, field.Invalid(tenants.Index(i), name, err.Error()))
		case seen[name]:
			errs = append(errs, field.Duplicate(tenants.Index(i), name))
		}
		seen[name] = true
	}
	return errs
}
