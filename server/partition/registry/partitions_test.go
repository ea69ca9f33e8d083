package registry

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

func validOne() *partitionapi.Partition {
	return &partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: "tp2"}, Spec: partitionapi.PartitionSpec{
		Roles: partitionapi.Roles(), Identity: "id", ServiceCIDR: "10.44.0.0/16", ClusterCIDR: "10.42.0.0/16",
		Servers: []partitionapi.PartitionServer{{Name: "a", Address: "192.0.2.1:6443"}},
	}}
}

func TestPartitionValidation(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*partitionapi.PartitionSpec)
		update bool
		want   string // "" for no error
	}{
		"whole":           {func(*partitionapi.PartitionSpec) {}, false, ""},
		"without roles":   {func(s *partitionapi.PartitionSpec) { s.Roles = nil }, false, "spec.roles"},
		"another role":    {func(s *partitionapi.PartitionSpec) { s.Roles[0] = "x" }, false, "spec.roles[0]"},
		"no identity":     {func(s *partitionapi.PartitionSpec) { s.Identity = "" }, false, "spec.identity"},
		"no range":        {func(s *partitionapi.PartitionSpec) { s.ServiceCIDR = "" }, false, "spec.serviceCIDR"},
		"a server's name": {func(s *partitionapi.PartitionSpec) { s.Servers[0].Address = "evil" }, false, "address"},
		"a server twice": {func(s *partitionapi.PartitionSpec) {
			s.Servers = append(s.Servers, s.Servers...)
		}, false, "Duplicate"},
		"servers change":   {func(s *partitionapi.PartitionSpec) { s.Servers[0].Name = "b" }, true, ""},
		"identity changes": {func(s *partitionapi.PartitionSpec) { s.Identity = "b" }, true, "never change"},
		"range changes": {func(s *partitionapi.PartitionSpec) { s.ServiceCIDR = "10.45.0.0/16" }, true,
			"never change"},
		"range of pods changes": {func(s *partitionapi.PartitionSpec) { s.ClusterCIDR = "10.52.0.0/16" }, true,
			"never change"},
		"node ports change": {func(s *partitionapi.PartitionSpec) { s.NodePortRange = "28000-29999" }, true, ""},
		"roles change":      {func(s *partitionapi.PartitionSpec) { s.Roles = s.Roles[:1] }, true, "never change"},
	} {
		p, old := validOne(), validOne()
		c.change(&p.Spec)
		errs := validatePartition(t.Context(), p, nil)
		if c.update {
			errs = validatePartition(t.Context(), p, old)
		}
		err := errs.ToAggregate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", what, err, c.want)
		}
	}
}

func TestPlacementValidation(t *testing.T) {
	valid := &partitionapi.TenantPlacement{ObjectMeta: metav1.ObjectMeta{Name: "team-a"},
		Spec:   partitionapi.TenantPlacementSpec{Partition: "tp2"},
		Status: partitionapi.TenantPlacementStatus{Phase: partitionapi.PlacementActive}}
	if errs := validatePlacement(t.Context(), valid, valid); len(errs) > 0 {
		t.Error(errs)
	}
	moved, system, unphased := valid.DeepCopy(), valid.DeepCopy(), valid.DeepCopy()
	moved.Spec.Partition, system.Name, unphased.Status.Phase = "tp3", "system", "x"
	for _, p := range []*partitionapi.TenantPlacement{moved, system, unphased} {
		if len(validatePlacement(t.Context(), p, valid)) != 1 {
			t.Errorf("%+v is accepted", p)
		}
	}
}

func TestOverlap(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"10.43.0.0/16", "10.44.0.0/16"}: false, {"10.43.0.0/16", "10.43.8.0/24"}: true,
		{"10.43.8.0/24", "10.43.0.0/16"}: true, {"", "10.43.0.0/16"}: false,
	} {
		if got := overlap(pair[0], pair[1]); got != want {
			t.Errorf("%v: %v", pair, got)
		}
	}
}

// TestClash: Services of tenant partitions and pods on nodes have addresses of their own.
func TestClash(t *testing.T) {
	one := func(name, services, pods string, roles ...partitionapi.Role) *partitionapi.Partition {
		p := validOne()
		p.Name, p.Spec.Roles, p.Spec.ServiceCIDR, p.Spec.ClusterCIDR = name, roles, services, pods
		return p
	}
	tp, rp := partitionapi.RoleTenant, partitionapi.RoleResource
	home := one("main", "10.43.0.0/16", "10.42.0.0/16", tp, rp)
	for what, c := range map[string]struct {
		p    *partitionapi.Partition
		want string // "" for no error
	}{
		"apart":                     {one("b", "10.44.0.0/16", "10.142.0.0/16", tp, rp), ""},
		"services":                  {one("b", "10.43.128.0/17", "10.142.0.0/16", tp, rp), "--service-cidr"},
		"pods":                      {one("b", "10.44.0.0/16", "10.42.0.0/16", tp, rp), "--cluster-cidr"},
		"pods of a partition alone": {one("b", "10.43.0.0/16", "10.42.0.0/16", rp), "--cluster-cidr"},
		"no nodes, so no pods":      {one("b", "10.44.0.0/16", "10.42.0.0/16", tp), ""},
		"no tenants, no services":   {one("b", "10.43.0.0/16", "10.142.0.0/16", rp), ""},
		"itself":                    {one("main", "10.43.0.0/16", "10.42.0.0/16", tp, rp), ""},
	} {
		err := clash(c.p, home)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", what, err, c.want)
		}
	}
}

// TestTheKindsAreThoseOfPartitions: this package makes known what it serves, and not the kind of service groups.
func TestTheKindsAreThoseOfPartitions(t *testing.T) {
	for kind, want := range map[string]bool{"DataPartitionConfig": false, "Partition": true, "TenantPlacement": true} {
		if legacyscheme.Scheme.Recognizes(partitionapi.GroupVersion().WithKind(kind)) != want {
			t.Errorf("%s is known: %t", kind, !want)
		}
	}
}
