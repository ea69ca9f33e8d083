package registry

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/a4s-io/a4s/server/controlplane/apiregistry"
	"github.com/a4s-io/a4s/server/partition/allocations"
)

const (
	// maxShares is how many partitions an allocation can have, maxResources and maxPorts
	// how much each says: every scheduler keeps all of it.
	maxShares    = 256
	maxResources = 256
	maxPorts     = 10_000
	maxPort      = 65535
)

// newStrategy decides what an allocation may be.
func newStrategy() apiregistry.Strategy[*allocations.NodeAllocation] {
	return apiregistry.Strategy[*allocations.NodeAllocation]{
		Check: func(ctx context.Context, a, old *allocations.NodeAllocation) field.ErrorList {
			return append(validate(a), validateAuthor(ctx, a, old)...)
		},
	}
}

func validate(a *allocations.NodeAllocation) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(a.Name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), a.Name, problem))
	}
	shares, awaited := field.NewPath("shares"), field.NewPath("awaited")
	if len(a.Shares) > maxShares {
		return append(errs, field.TooMany(shares, len(a.Shares), maxShares))
	}
	if len(a.Awaited) > maxShares {
		return append(errs, field.TooMany(awaited, len(a.Awaited), maxShares))
	}
	seen := map[string]bool{}
	for i, s := range a.Shares {
		at := shares.Index(i)
		if seen[s.Partition] {
			errs = append(errs, field.Duplicate(at.Child("partition"), s.Partition))
		}
		seen[s.Partition] = true
		errs = append(errs, validateShare(s, at)...)
	}
	for i, partition := range a.Awaited {
		for _, problem := range validation.IsDNS1123Label(partition) {
			errs = append(errs, field.Invalid(awaited.Index(i), partition, problem))
		}
	}
	return errs
}

func validateShare(s allocations.Share, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Label(s.Partition) {
		errs = append(errs, field.Invalid(at.Child("partition"), s.Partition, problem))
	}
	if len(s.Requests) > maxResources {
		errs = append(errs, field.TooMany(at.Child("requests"), len(s.Requests), maxResources))
		return errs
	}
	for name, quantity := range s.Requests {
		key := at.Child("requests").Key(string(name))
		for _, problem := range validation.IsQualifiedName(string(name)) {
			errs = append(errs, field.Invalid(key, string(name), problem))
		}
		if quantity.Sign() < 0 {
			errs = append(errs, field.Invalid(key, quantity.String(), "must not be negative"))
		}
	}
	if s.Pods < 0 {
		errs = append(errs, field.Invalid(at.Child("pods"), s.Pods, "must not be negative"))
	}
	if len(s.HostPorts) > maxPorts {
		return append(errs, field.TooMany(at.Child("hostPorts"), len(s.HostPorts), maxPorts))
	}
	protocols := []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}
	for i, p := range s.HostPorts {
		at := at.Child("hostPorts").Index(i)
		if p.Port < 1 || p.Port > maxPort {
			errs = append(errs, field.Invalid(at.Child("port"), p.Port, fmt.Sprintf("want 1 to %d", maxPort)))
		}
		if !slices.Contains(protocols, p.Protocol) {
			errs = append(errs, field.NotSupported(at.Child("protocol"), p.Protocol, protocols))
		}
		if _, err := netip.ParseAddr(p.IP); err != nil {
			errs = append(errs, field.Invalid(at.Child("ip"), p.IP, "want an IP address"))
		}
	}
	return errs
}

// validateAuthor keeps partitions from changing what others have. Whoever is not one is an
// administrator, as far as the authorizer lets them.
func validateAuthor(ctx context.Context, a, old *allocations.NodeAllocation) field.ErrorList {
	u, ok := request.UserFrom(ctx)
	if !ok {
		return nil
	}
	own, ok := strings.CutPrefix(u.GetName(), allocations.UserPrefix)
	if !ok {
		return nil
	}
	if old == nil {
		old = &allocations.NodeAllocation{}
	}
	var errs field.ErrorList
	for _, s := range append(slices.Clone(a.Shares), old.Shares...) {
		now, was := a.Of(s.Partition), old.Of(s.Partition)
		if s.Partition != own && !now.Equal(was) {
			errs = append(errs, field.Forbidden(field.NewPath("shares"),
				fmt.Sprintf("partition %q cannot change the share of %q", own, s.Partition)))
			break
		}
	}
	others := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(partition string) bool { return partition == own })
	}
	if !slices.Equal(others(a.Awaited), others(old.Awaited)) {
		errs = append(errs, field.Forbidden(field.NewPath("awaited"),
			fmt.Sprintf("partition %q can take only itself from it", own)))
	}
	return errs
}
