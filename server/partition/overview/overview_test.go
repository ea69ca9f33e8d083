package overview

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

func partition(name string, roles []partitionapi.Role, addresses ...string) *partitionapi.Partition {
	p := &partitionapi.Partition{Spec: partitionapi.PartitionSpec{Roles: roles}}
	p.Name = name
	for _, a := range addresses {
		p.Spec.Servers = append(p.Spec.Servers, partitionapi.PartitionServer{Name: "s-" + a, Address: a})
	}
	return p
}

// TestStates: one partition answers, one hangs, of one a server is down. Who counts nodes hangs,
// too, at first.
func TestStates(t *testing.T) { synctest.Test(t, testStates) }

func testStates(t *testing.T) {
	both := partitionapi.Roles()
	all := []*partitionapi.Partition{partition("main", both, "m1"), partition("rp2", both[1:], "r1", "r2"),
		partition("tp2", both[:1], "t1")}
	hangs, counts := map[string]bool{"m1": true}, false
	v := New(Options{
		Partitions: func() []*partitionapi.Partition { return all },
		Placements: func() []*partitionapi.TenantPlacement {
			return []*partitionapi.TenantPlacement{{Spec: partitionapi.TenantPlacementSpec{Partition: "tp2"}},
				{Spec: partitionapi.TenantPlacementSpec{Partition: "tp2"}}}
		},
		Ping: func(ctx context.Context, address string) (time.Time, error) {
			switch {
			case hangs[address]:
				<-ctx.Done()
				return time.Time{}, ctx.Err()
			case address == "r2":
				return time.Time{}, errors.New("refused")
			}
			return time.Now(), nil
		},
		Nodes: func(ctx context.Context) map[string]int {
			if !counts {
				<-ctx.Done()
				return nil
			}
			return map[string]int{"main": 2, "rp2": 3}
		},
	})
	check := func(want ...string) {
		t.Helper()
		began := time.Now()
		states := v.States(t.Context())
		if took := time.Since(began); took > within {
			t.Errorf("it took %s", took)
		}
		var got []string
		for _, s := range states {
			nodes := "?"
			if s.Nodes != nil {
				nodes = fmt.Sprint(*s.Nodes)
			}
			got = append(got, fmt.Sprintf("%s %s %s nodes %d tenants, silent %v, seen %t", s.Name, s.State, nodes,
				s.Tenants, s.Silent, s.LastSeen != nil))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	check("main away ? nodes 0 tenants, silent [s-m1 (m1)], seen false",
		"rp2 partly ? nodes 0 tenants, silent [s-r2 (r2)], seen true",
		"tp2 ready 0 nodes 2 tenants, silent [], seen true")
	hangs["m1"], counts = false, true
	check("main ready 2 nodes 0 tenants, silent [], seen true",
		"rp2 partly 3 nodes 0 tenants, silent [s-r2 (r2)], seen true",
		"tp2 ready 0 nodes 2 tenants, silent [], seen true")
	hangs["m1"] = true
	check("main away 2 nodes 0 tenants, silent [s-m1 (m1)], seen true",
		"rp2 partly 3 nodes 0 tenants, silent [s-r2 (r2)], seen true",
		"tp2 ready 0 nodes 2 tenants, silent [], seen true")
	all = nil
	if got := v.States(t.Context()); got == nil || len(got) != 0 {
		t.Errorf("without other partitions: %v", got)
	}
}
