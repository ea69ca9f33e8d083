package space

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// System is the space of the cluster itself.
	System = "system"
	// All is the name by which system users address every space at once
	// (/api/v1/tenants/all/pods). No tenant can have it.
	All = "all"
	// Suffix ends the composite name of a tenant's cluster-scoped object and
	// is reserved: no object of the system space may have it.
	Suffix = ".tenant"
	// Label is on every tenant object that upstream selects by label across
	// namespaces; its value is the tenant. Only the storage layer sets it.
	Label = "a4s.io/tenant"
	// Organization stands before the tenant's name in the organization of a client certificate. No
	// name of a user or a group begins with it.
	Organization = "tenant:"
	// Extra is the key of a user's extra attributes that names their tenant.
	Extra = "a4s.io/tenant"
	// MaxTenant is the longest tenant name, in characters.
	MaxTenant = 24
	// MaxNamespace is the longest composite namespace: it is the value of the
	// label kubernetes.io/metadata.name.
	MaxNamespace = 63
	// MaxClusterName is the longest composite name of a cluster-scoped object.
	MaxClusterName = 253
)

// Names that are refused, to be matched with errors.Is.
var (
	// ErrInvalid is a name that is not well formed.
	ErrInvalid = errors.New("invalid name")
	// ErrReserved is a name that a4s keeps for itself.
	ErrReserved = errors.New("reserved name")
	// ErrTooLong is a name that leaves no room for the tenant's.
	ErrTooLong = errors.New("name too long")
)

// ValidateTenant says what is wrong with a name for a new tenant.
func ValidateTenant(name string) error {
	if name == System || name == All {
		return fmt.Errorf("%w: %q cannot be the name of a tenant", ErrReserved, name)
	}
	if len(name) > MaxTenant {
		return fmt.Errorf("%w: the tenant name %q has %d characters, at most %d are possible", ErrTooLong, name,
			len(name), MaxTenant)
	}
	if !isLabel(name) {
		return fmt.Errorf("%w: the tenant name %q must consist of lower case letters, digits and '-', "+
			"and begin and end with a letter or digit", ErrInvalid, name)
	}
	return nil
}

// Room is how many characters a native namespace of tenant may have.
func Room(tenant string) int {
	if tenant == System || tenant == "" {
		return MaxNamespace
	}
	return MaxNamespace - len(tenant) - 1
}

// CheckClusterName says whether native can be the name of a cluster-scoped
// object of tenant.
func CheckClusterName(tenant, native string) error {
	if tenant == System || tenant == "" {
		if strings.HasSuffix(native, Suffix) {
			return fmt.Errorf("%w: names that end in %q belong to tenants: %q", ErrReserved, Suffix, native)
		}
		return nil
	}
	if room := MaxClusterName - len(tenant) - len(Suffix) - 1; len(native) > room {
		return fmt.Errorf("%w: the name %q has %d characters, at most %d are possible in tenant %s", ErrTooLong,
			native, len(native), room, tenant)
	}
	return nil
}

// Namespace composes a namespace. An empty namespace stays empty: it means
// "all" or "none" wherever Kubernetes has it.
func Namespace(tenant, native string) string {
	if native == "" || tenant == System || tenant == "" {
		return native
	}
	return native + "." + tenant
}

// SplitNamespace is the inverse of Namespace; the tenant of an empty or plain
// namespace is System.
func SplitNamespace(composite string) (tenant, native string) {
	if i := strings.LastIndexByte(composite, '.'); i > 0 && i < len(composite)-1 {
		return composite[i+1:], composite[:i]
	}
	return System, composite
}

// OfNamespace is the tenant of a composite namespace.
func OfNamespace(composite string) (tenant string) {
	tenant, _ = SplitNamespace(composite)
	return tenant
}

// ClusterName composes the name of a cluster-scoped object.
func ClusterName(tenant, native string) string {
	if native == "" || tenant == System || tenant == "" {
		return native
	}
	return native + "." + tenant + Suffix
}

// SplitClusterName is the inverse of ClusterName; the tenant of a plain name
// is System.
func SplitClusterName(composite string) (tenant, native string) {
	rest, ok := strings.CutSuffix(composite, Suffix)
	if !ok {
		return System, composite
	}
	if i := strings.LastIndexByte(rest, '.'); i > 0 && i < len(rest)-1 {
		return rest[i+1:], rest[:i]
	}
	return System, composite
}

// IsSystem reports whether tenant is the system space; so is no tenant at all.
func IsSystem(tenant string) bool { return tenant == "" || tenant == System }

func isLabel(s string) bool {
	if s == "" || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
