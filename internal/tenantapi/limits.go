package tenantapi

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Names of limits, as they stand in a Tenant and in settings.
const (
	LimitNamespaces       = "namespaces"
	LimitObjects          = "objects"
	LimitRequestsInFlight = "requestsInFlight"
	LimitBytes            = "bytes"
	LimitPods             = "pods"
	LimitCPU              = "cpu"
	LimitMemory           = "memory"
	LimitStorage          = "storage"
	LimitDefinitions      = "definitions"
	LimitLoadBalancers    = "loadBalancers"
	LimitEventsPerSecond  = "eventsPerSecond"
	LimitServices         = "services"
	LimitNodePorts        = "nodePorts"
	LimitBalancerPorts    = "loadBalancerPorts"
	LimitWatches          = "watches"
	LimitDefinitionBytes  = "definitionBytes"
	LimitShare            = "share"
	LimitAccesses         = "accesses"
)

// What a share can be, and what it is unless somebody says another.
const (
	DefaultShare = 10
	mostShare    = 100
)

// NoLimit is the value in settings of what is not bounded.
const NoLimit = "none"

// Counts says what counts towards a limit, in a few words: a Tenant has them beside what it
// uses. It is "" for what is no limit.
func Counts(limit string) string {
	if strings.HasPrefix(limit, LimitOfDevices("")) {
		return "devices of this class that claims of the space can be given"
	}
	if name, ok := strings.CutPrefix(limit, LimitOfQuota("")); ok {
		if q, err := QuotaOf(name); err == nil {
			return q.Counts
		}
	}
	return map[string]string{
		LimitNamespaces:       "namespaces of the space",
		LimitObjects:          "objects of all kinds but events and leases",
		LimitBytes:            "what all objects take in the datastore",
		LimitPods:             "pods that have not ended",
		LimitCPU:              "what pods that have not ended request, or are limited to",
		LimitMemory:           "what pods that have not ended request, or are limited to",
		LimitStorage:          "what claims of volumes request",
		LimitDefinitions:      "definitions of custom resources",
		LimitAccesses:         "accesses that the users of the space made",
		LimitDefinitionBytes:  "what definitions of custom resources take in the datastore",
		LimitServices:         "services",
		LimitNodePorts:        "ports of the nodes that services have",
		LimitLoadBalancers:    "services of type LoadBalancer",
		LimitBalancerPorts:    "ports of services of type LoadBalancer",
		LimitEventsPerSecond:  "events that are written",
		LimitRequestsInFlight: "requests that are being served",
		LimitWatches:          "watches that are open",
		LimitShare:            "nothing: a part of the server's time while others ask, too",
	}[limit]
}

// limitField is one field of TenantLimits: a count or a quantity.
type limitField struct {
	name     string
	count    **int64
	quantity **resource.Quantity
}

// fields are all fields but the maps, in their order.
func (in *TenantLimits) fields() []limitField {
	return []limitField{
		{name: LimitNamespaces, count: &in.Namespaces},
		{name: LimitObjects, count: &in.Objects},
		{name: LimitRequestsInFlight, count: &in.RequestsInFlight},
		{name: LimitBytes, quantity: &in.Bytes},
		{name: LimitPods, count: &in.Pods},
		{name: LimitCPU, quantity: &in.CPU},
		{name: LimitMemory, quantity: &in.Memory},
		{name: LimitStorage, quantity: &in.Storage},
		{name: LimitDefinitions, count: &in.Definitions},
		{name: LimitLoadBalancers, count: &in.LoadBalancers},
		{name: LimitEventsPerSecond, count: &in.EventsPerSecond},
		{name: LimitServices, count: &in.Services},
		{name: LimitNodePorts, count: &in.NodePorts},
		{name: LimitBalancerPorts, count: &in.LoadBalancerPorts},
		{name: LimitWatches, count: &in.Watches},
		{name: LimitDefinitionBytes, quantity: &in.DefinitionBytes},
		{name: LimitShare, count: &in.Share},
		{name: LimitAccesses, count: &in.Accesses},
	}
}

// parse sets the field by its text in settings.
func (f limitField) parse(text string) error {
	if f.count != nil {
		*f.count = nil
		if text == NoLimit {
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		*f.count = &n
		return nil
	}
	*f.quantity = nil
	if text == NoLimit {
		return nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("%q is not a quantity such as 500m, 4 or 256Mi", text)
	}
	*f.quantity = &q
	return nil
}

// DefaultLimits are those of a tenant unless the cluster or the Tenant has
// others: more than an honest tenant is likely to need, and little enough for
// one alone not to take what all others need. What depends on the size of the
// cluster is not bounded.
func DefaultLimits() *TenantLimits {
	l := &TenantLimits{}
	for _, s := range DefaultLimitSettings() {
		name, value, _ := strings.Cut(s, "=")
		for _, f := range l.fields() {
			if f.name == name {
				_ = f.parse(value) //nolint:errcheck // a test parses them
			}
		}
	}
	return l
}

// DefaultLimitSettings are DefaultLimits as they would be set.
func DefaultLimitSettings() []string {
	return []string{"bytes=256Mi", "objects=50000", "pods=2000", "definitions=200", "definitionBytes=16Mi",
		"loadBalancers=10", "eventsPerSecond=50", "services=2000", "nodePorts=100", "loadBalancerPorts=100",
		"watches=1000", "accesses=20"}
}

// ParseLimits changes DefaultLimits by settings, "name=value" each.
func ParseLimits(settings []string) (*TenantLimits, error) {
	l := DefaultLimits()
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not NAME=VALUE", s)
		}
		found, err := l.parseDevices(name, value)
		if !found {
			found, err = l.parseQuota(name, value)
		}
		if err != nil {
			return nil, fmt.Errorf("the limit %s: %w", name, err)
		}
		names := []string{LimitOfDevices("CLASS"), LimitOfQuota("NAME")}
		for _, f := range l.fields() {
			names = append(names, f.name)
			if f.name != name {
				continue
			}
			found = true
			if err := f.parse(value); err != nil {
				return nil, fmt.Errorf("the limit %s: %w", name, err)
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no limit %q, only %s", name, strings.Join(names, ", "))
		}
	}
	if errs := l.Validate(field.NewPath("limits")); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return l, nil
}

// Over returns these limits, and those of base where there are none.
func (in *TenantLimits) Over(base *TenantLimits) *TenantLimits {
	if in == nil {
		in = &TenantLimits{}
	}
	if base == nil {
		return in
	}
	out := *in
	from := base.fields()
	for i, f := range out.fields() {
		if f.count != nil && *f.count == nil {
			*f.count = *from[i].count
		}
		if f.quantity != nil && *f.quantity == nil {
			*f.quantity = *from[i].quantity
		}
	}
	out.Devices = namedOver(in.Devices, base.Devices)
	out.Quota = namedOver(in.Quota, base.Quota)
	return &out
}

// Validate finds what cannot be a limit.
func (in *TenantLimits) Validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	most := resource.NewQuantity(math.MaxInt64/1000, resource.DecimalSI)
	for _, f := range in.fields() {
		at := path.Child(f.name)
		switch {
		case f.count != nil && *f.count != nil && **f.count < 0:
			errs = append(errs,
				field.Invalid(at, **f.count, "must not be negative; without it the limit of all tenants applies"))
		case f.quantity == nil || *f.quantity == nil:
		case (*f.quantity).Sign() < 0:
			errs = append(errs, field.Invalid(at, (*f.quantity).String(),
				"must not be negative; without it the limit of all tenants applies"))
		case (*f.quantity).Cmp(*most) > 0:
			errs = append(errs, field.Invalid(at, (*f.quantity).String(), "must be at most "+most.String()))
		case f.name != LimitCPU &&
			(*f.quantity).Cmp(*resource.NewQuantity((*f.quantity).Value(), resource.DecimalSI)) != 0:
			errs = append(errs, field.Invalid(at, (*f.quantity).String(), "must be a whole number of bytes"))
		}
	}
	// A tenant that may not ask anything could not even be looked at by its
	// own users; deleting it is the way to shut it.
	if n := in.RequestsInFlight; n != nil && *n == 0 {
		errs = append(errs, field.Invalid(path.Child(LimitRequestsInFlight), *n, "must be at least 1"))
	}
	if n := in.Share; n != nil && (*n == 0 || *n > mostShare) {
		errs = append(errs, field.Invalid(path.Child(LimitShare), *n, fmt.Sprintf("must be 1 to %d", mostShare)))
	}
	errs = append(errs, validateDevices(in.Devices, path.Child(LimitDevices))...)
	return append(errs, validateQuota(in.Quota, path.Child(LimitQuota))...)
}
