package registry

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/apiregistry"
)

// maxServers is how many servers one partition has at most.
const maxServers = 100

// It happens when the package is initialized: a scheme must not change once servers and
// controllers read it.
var _ = registered()

func registered() bool {
	partitionapi.AddDirectoryToScheme(legacyscheme.Scheme)
	return true
}

// Storage returns the REST storage of partitions and placements, by path.
func Storage(getter generic.RESTOptionsGetter) (map[string]rest.Storage, error) {
	partitions, err := apiregistry.Kind[*partitionapi.Partition]{
		Resource: partitionapi.Partitions, Singular: "partition",
		New:      func() runtime.Object { return &partitionapi.Partition{} },
		NewList:  func() runtime.Object { return &partitionapi.PartitionList{} },
		Strategy: apiregistry.Strategy[*partitionapi.Partition]{Check: validatePartition},
		Columns:  partitionColumns(),
	}.Store(getter)
	if err != nil {
		return nil, err
	}
	placements, err := apiregistry.Kind[*partitionapi.TenantPlacement]{
		Resource: partitionapi.Placements, Singular: "tenantplacement",
		New:      func() runtime.Object { return &partitionapi.TenantPlacement{} },
		NewList:  func() runtime.Object { return &partitionapi.TenantPlacementList{} },
		Strategy: apiregistry.Strategy[*partitionapi.TenantPlacement]{Check: validatePlacement},
		Columns:  placementColumns(),
	}.Store(getter)
	if err != nil {
		return nil, err
	}
	return map[string]rest.Storage{
		partitionapi.Partitions: &partitionREST{Store: partitions, placements: placements},
		partitionapi.Placements: &placementREST{placements},
	}, nil
}

// partitionREST keeps ranges apart, and partitions that have tenants.
type partitionREST struct {
	*genericregistry.Store
	placements *genericregistry.Store
}

var (
	_ rest.StandardStorage    = (*partitionREST)(nil)
	_ rest.ShortNamesProvider = (*partitionREST)(nil)
)

// ShortNames implements rest.ShortNamesProvider.
func (r *partitionREST) ShortNames() []string { return []string{"part"} }

// Create implements rest.Creater.
func (r *partitionREST) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	return r.Store.Create(ctx, obj, apiregistry.Then(validate, func(ctx context.Context, obj runtime.Object) error {
		return r.apart(ctx, obj.(*partitionapi.Partition))
	}), options)
}

// apart refuses a partition whose Services or pods would have addresses of another's: nodes take
// pods of all, which reach each other, and could not tell them.
func (r *partitionREST) apart(ctx context.Context, p *partitionapi.Partition) error {
	obj, err := r.List(ctx, nil)
	if err != nil {
		return fmt.Errorf("reading the other partitions: %w", err)
	}
	for _, other := range obj.(*partitionapi.PartitionList).Items {
		if was, ok := other.Spec.HasRemoved(p.Spec.Identity); ok {
			return apierrors.NewConflict(r.DefaultQualifiedResource, p.Name, removedError(was))
		}
		if err := clash(p, &other); err != nil {
			return apierrors.NewConflict(r.DefaultQualifiedResource, p.Name, err)
		}
	}
	return nil
}

// clash says which range of a partition overlaps with that of another one.
func clash(p, other *partitionapi.Partition) error {
	if other.Name == p.Name {
		return nil
	}
	for _, c := range []struct {
		role           partitionapi.Role
		of, own, other string
		flag           string
	}{
		{partitionapi.RoleTenant, "service", p.Spec.ServiceCIDR, other.Spec.ServiceCIDR, "--service-cidr"},
		{partitionapi.RoleResource, "pod", p.Spec.ClusterCIDR, other.Spec.ClusterCIDR, "--cluster-cidr"},
	} {
		if p.Has(c.role) && other.Has(c.role) && overlap(c.own, c.other) {
			return fmt.Errorf("its %s range %s overlaps with %s of partition %s: give each %s partition its own %s",
				c.of, c.own, c.other, other.Name, c.role, c.flag)
		}
	}
	return nil
}

func overlap(a, b string) bool {
	x, errX := netip.ParsePrefix(a)
	y, errY := netip.ParsePrefix(b)
	return errX == nil && errY == nil && x.Overlaps(y)
}

// DeleteCollection implements rest.CollectionDeleter.
func (r *partitionREST) DeleteCollection(
	context.Context, rest.ValidateObjectFunc, *metav1.DeleteOptions, *metainternalversion.ListOptions,
) (runtime.Object, error) {
	return nil, apierrors.NewMethodNotSupported(r.DefaultQualifiedResource, "deletecollection")
}

// placementREST is the storage of placements.
type placementREST struct{ *genericregistry.Store }

// ShortNames implements rest.ShortNamesProvider.
func (r *placementREST) ShortNames() []string { return []string{"tp"} }

// DeleteCollection implements rest.CollectionDeleter.
func (r *placementREST) DeleteCollection(
	context.Context, rest.ValidateObjectFunc, *metav1.DeleteOptions, *metainternalversion.ListOptions,
) (runtime.Object, error) {
	return nil, apierrors.NewMethodNotSupported(r.DefaultQualifiedResource, "deletecollection")
}

func validatePartition(_ context.Context, p, was *partitionapi.Partition) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Label(p.Name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), p.Name, problem))
	}
	if len(p.Spec.Roles) == 0 {
		errs = append(errs, field.Required(spec.Child("roles"), "a partition has tenants, nodes, or both"))
	}
	for i, role := range p.Spec.Roles {
		if !slices.Contains(partitionapi.Roles(), role) {
			errs = append(errs, field.NotSupported(spec.Child("roles").Index(i), role, partitionapi.Roles()))
		}
	}
	if p.Spec.Identity == "" {
		errs = append(errs, field.Required(spec.Child("identity"), "what tells it from others of its name"))
	}
	for name, value := range map[string]string{"serviceCIDR": p.Spec.ServiceCIDR, "clusterCIDR": p.Spec.ClusterCIDR} {
		if _, err := netip.ParsePrefix(value); err != nil {
			errs = append(errs, field.Invalid(spec.Child(name), value, "want a range such as 10.43.0.0/16"))
		}
	}
	errs = append(errs, validateServers(p, spec.Child("servers"))...)
	errs = append(errs, validateRemoved(p, spec.Child("removed"))...)
	if was != nil && (was.Spec.Identity != p.Spec.Identity ||
		was.Spec.ServiceCIDR != p.Spec.ServiceCIDR || was.Spec.ClusterCIDR != p.Spec.ClusterCIDR ||
		!slices.Equal(was.Spec.Roles, p.Spec.Roles)) {
		errs = append(errs, field.Forbidden(spec, "identity, roles, serviceCIDR and clusterCIDR never change"))
	}
	return errs
}

func validateServers(p *partitionapi.Partition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(p.Spec.Servers) > maxServers {
		return append(errs, field.TooMany(path, len(p.Spec.Servers), maxServers))
	}
	seen := map[string]bool{}
	for i, s := range p.Spec.Servers {
		if s.Name == "" {
			errs = append(errs, field.Required(path.Index(i).Child("name"), "the name of the node of the server"))
		}
		if seen[s.Name] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("name"), s.Name))
		}
		seen[s.Name] = true
		if _, err := netip.ParseAddrPort(s.Address); err != nil {
			errs = append(errs, field.Invalid(path.Index(i).Child("address"), s.Address,
				"want an address and a port such as 192.0.2.1:6443"))
		}
	}
	return errs
}

func validatePlacement(_ context.Context, p, was *partitionapi.TenantPlacement) field.ErrorList {
	var errs field.ErrorList
	if err := space.ValidateTenant(p.Name); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), p.Name, err.Error()))
	}
	partition := field.NewPath("spec", "partition")
	if p.Spec.Partition == "" {
		errs = append(errs, field.Required(partition, "the partition that has the tenant"))
	}
	phases := []partitionapi.PlacementPhase{partitionapi.PlacementCreating, partitionapi.PlacementActive,
		partitionapi.PlacementDeleting}
	if !slices.Contains(phases, p.Status.Phase) {
		errs = append(errs, field.NotSupported(field.NewPath("status", "phase"), p.Status.Phase, phases))
	}
	if was != nil && was.Spec.Partition != p.Spec.Partition {
		errs = append(errs, field.Forbidden(partition, "a tenant does not move"))
	}
	return errs
}
