package tenantadmin

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/cluster/servers"
	"github.com/a4s-io/a4s/server/groups/balance"
	"github.com/a4s-io/a4s/server/groups/load"
)

// TestGroupsAreShown: groups with their load, and what each server has applied.
func TestGroupsAreShown(t *testing.T) {
	state := &balance.State{
		Configs: []partitionapi.DataPartitionConfig{
			{ObjectMeta: metav1.ObjectMeta{Name: "low", ResourceVersion: "90"}, ServiceGroupID: "0", RangeEnd: "m",
				IsRangeEndValid: true},
			{ObjectMeta: metav1.ObjectMeta{Name: "high", ResourceVersion: "120"}, ServiceGroupID: "1",
				RangeStart: "m", IsRangeStartValid: true, Tenants: []string{"hot"}},
		},
		Loads: balance.Loads{
			"a":   {Objects: 30, Rate: load.Rate{Writes: 5}},
			"hot": {Objects: 10, Rate: load.Rate{Writes: 15, WatchBytes: 200_000}},
		},
		Servers: []servers.Server{
			{Name: "s0", Group: "0", Address: "10.0.0.1:6443", Ready: true, Applied: 120},
			{Name: "s1", Group: "1", Address: "10.0.0.2:6443", Ready: true, Applied: 121},
			{Name: "gone", Group: "2", Applied: 90},
			{Name: "whole", Group: "0", Ready: true, Applied: servers.NoGroup},
		},
	}
	show := func() string {
		t.Helper()
		var out strings.Builder
		if err := groupsOf(state).Write(&out); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(out.String()), " ")
	}
	text := show()
	for _, want := range []string{
		"0 [, m) - 1 30 5.0 0.0 33% 2/2 low", "1 [m, ) hot 1 10 15.0 200.0 67% 1/1 high",
		"2 all - 0 0 0.0 0.0 0% 0/1 -",
		"s0 0 yes 10.0.0.1:6443 120", "s1 1 yes 10.0.0.2:6443 121", "gone 2 no - 90 (behind)",
		"whole 0 yes - -",
		"revision 120: every server that is ready has applied it",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	state.Servers[0].Applied = 90
	if text := show(); !strings.Contains(text, "120: some servers have not applied it yet") {
		t.Error(text)
	}
}
