package placement

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

func TestFewest(t *testing.T) {
	partition := func(name string, roles ...partitionapi.Role) *partitionapi.Partition {
		return &partitionapi.Partition{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: partitionapi.PartitionSpec{Roles: roles}}
	}
	partitions := []*partitionapi.Partition{
		partition("main", partitionapi.Roles()...), partition("tp2", partitionapi.RoleTenant),
		partition("tp3", partitionapi.RoleTenant), partition("rp1", partitionapi.RoleResource),
	}
	for _, c := range []struct {
		tenants map[string]int
		want    []string
	}{
		{nil, []string{"main", "tp2", "tp3"}},
		{map[string]int{"main": 2, "tp2": 1, "tp3": 3}, []string{"tp2", "main", "tp3"}},
		{map[string]int{"main": 1, "removed": 9, "rp1": 9}, []string{"tp2", "tp3", "main"}},
	} {
		var placements []*partitionapi.TenantPlacement
		for name, n := range c.tenants {
			for range n {
				placements = append(placements, &partitionapi.TenantPlacement{
					Spec: partitionapi.TenantPlacementSpec{Partition: name}})
			}
		}
		if got := Fewest(partitions, placements); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.tenants, got, c.want)
		}
	}
}
