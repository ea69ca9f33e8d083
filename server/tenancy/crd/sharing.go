package crd

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// How a CRD of the system space says who else is served by it. An
// unmodified manifest of a CRD can carry annotations; the first of them
// may be a label, too, as Arktos has it.
const (
	// SharingPolicy is how a CRD is shared: "forced" or "optional".
	// Without it a CRD is the system's own.
	SharingPolicy = "arktos.futurewei.com/crd-sharing-policy"
	// Forced CRDs serve every tenant, whatever its own ones and its
	// policy say, and have no range.
	Forced = "forced"
	// Optional CRDs serve the tenants in their range, if the policy of
	// the tenant has it so.
	Optional = "optional"
	// RangeNames lists tenants by name, separated by commas.
	RangeNames = "a4s.io/crd-tenants"
	// RangeSelector selects tenants by the labels of the Tenant objects.
	// With neither of the two a shared CRD is for all tenants, with
	// both for those that either of them has.
	RangeSelector = "a4s.io/crd-tenant-selector"
)

// Sharing is what a CRD of the system space says about who is served
// by it.
type Sharing struct {
	// Shared is false for a CRD that is the system's own.
	Shared bool
	Forced bool
	// names and selector are the applicable range, everybody if both are nil.
	names    []string
	selector labels.Selector
}

// ParseSharing reads how a CRD of the system space is shared. What
// cannot be understood is an error, and shares with nobody.
func ParseSharing(meta *metav1.ObjectMeta) (Sharing, error) {
	policy, ok := meta.Annotations[SharingPolicy]
	if !ok {
		policy = meta.Labels[SharingPolicy]
	}
	names, hasNames := meta.Annotations[RangeNames]
	selector, hasSelector := meta.Annotations[RangeSelector]
	s := Sharing{Shared: true}
	switch policy {
	case Forced:
		s.Forced = true
		return s, nil
	case Optional:
	case "":
		if hasNames || hasSelector {
			return Sharing{}, fmt.Errorf("%s and %s say with whom a definition is shared that is not: set %s to %q",
				RangeNames, RangeSelector, SharingPolicy, Optional)
		}
		return Sharing{}, nil
	default:
		return Sharing{}, fmt.Errorf("%s is %q: it can be %q or %q", SharingPolicy, policy, Forced, Optional)
	}
	if hasNames {
		s.names = []string{}
		for name := range strings.SplitSeq(names, ",") {
			if name = strings.TrimSpace(name); name == "" {
				continue
			}
			if err := space.ValidateTenant(name); err != nil {
				return Sharing{}, fmt.Errorf("%s names the tenant %q: %w", RangeNames, name, err)
			}
			s.names = append(s.names, name)
		}
	}
	if hasSelector {
		var err error
		if s.selector, err = labels.Parse(selector); err != nil {
			return Sharing{}, fmt.Errorf("%s is not a label selector: %w", RangeSelector, err)
		}
	}
	return s, nil
}

// Covers reports whether a tenant is in the applicable range.
func (s Sharing) Covers(tenant string, of map[string]string) bool {
	switch {
	case !s.Shared:
		return false
	case s.Forced || s.names == nil && s.selector == nil:
		return true
	case slices.Contains(s.names, tenant):
		return true
	}
	return s.selector != nil && s.selector.Matches(labels.Set(of))
}

// Source says whose CRD serves a tenant.
type Source int

const (
	// Nobody defines the resource for the tenant.
	Nobody Source = iota
	// Local is the tenant's own CRD.
	Local
	// System is a CRD of the system space.
	System
)

// Candidates are the CRDs of one resource that one tenant could be
// served by.
type Candidates struct {
	// Local reports whether the tenant has a CRD of its own.
	Local bool
	// Forced and Applicable describe the CRD of the system space, if
	// there is one: whether it is forced, and whether the tenant is in its
	// applicable range.
	Forced, Applicable bool
}

// Match decides which CRD serves a tenant: GetMatchingCRD of the
// multi-tenancy seed.
func Match(policy tenantapi.CRDPolicy, c Candidates) Source {
	if c.Forced {
		return System
	}
	first, second := Local, System
	switch policy {
	case tenantapi.NeverUseSystemCRDUnlessForced:
		c.Applicable = false
	case tenantapi.SystemCRDFirst:
		first, second = System, Local
	}
	for _, s := range []Source{first, second} {
		if s == Local && c.Local || s == System && c.Applicable {
			return s
		}
	}
	return Nobody
}
