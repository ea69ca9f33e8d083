package tenancy

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/edge"
	"github.com/a4s-io/a4s/server/tenancy/tenants/directory"
)

// Partitions are those of the cluster, and which of them has a tenant.
type Partitions interface {
	edge.Partitions
	// Placement is that of a tenant, nil when none is known.
	Placement(tenant string) *partitionapi.TenantPlacement
}

// everywhere are the tenants of all partitions.
type everywhere struct {
	here       *directory.Directory
	partitions Partitions
}

// Get finds a tenant. Of one that another partition has it says what certificates are
// checked against.
func (t *everywhere) Get(ctx context.Context, name string) (*tenantapi.Tenant, error) {
	if !t.partitions.Several() {
		return t.here.Get(ctx, name)
	}
	placed := t.partitions.Placement(name)
	if placed == nil {
		// Those that are used here are known without it.
		if found, err := t.here.Get(ctx, name); found != nil || err != nil {
			return found, err
		}
		var err error
		if placed, err = t.partitions.Find(ctx, name); placed == nil {
			return nil, err
		}
	}
	if placed.Spec.Partition == t.partitions.Self() {
		return t.here.Get(ctx, name)
	}
	s := placed.Status
	if s.TenantUID == "" || s.TenantCreated == nil {
		return nil, nil // it is not made yet
	}
	return &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name, UID: s.TenantUID,
		CreationTimestamp: *s.TenantCreated}}, nil
}

// Exists reports whether there is a tenant of this name.
func (t *everywhere) Exists(ctx context.Context, name string) (bool, error) {
	found, err := t.Get(ctx, name)
	return found != nil, err
}
