package main

import (
	"slices"
	"testing"
	"time"

	"github.com/a4s-io/a4s/tests/bench/sides"
)

func TestSmallRunsKeepWhatIsSaid(t *testing.T) {
	s, err := parse([]string{"--smoke", "--pods", "90", "--layouts", "0,1x2,2"})
	if err != nil {
		t.Fatal(err)
	}
	if s.pods != 90 || s.tenants != 8 || s.rounds != 1 || s.idle != 2*time.Second {
		t.Errorf("settings are %+v", s)
	}
	if want := []layout{{0, 1}, {1, 2}, {2, 1}}; !slices.Equal(s.layouts, want) {
		t.Errorf("layouts are %v, want %v", s.layouts, want)
	}
	for _, args := range [][]string{
		{"--layouts", "x"}, {"--layouts", "0x2"}, {"--layouts", "1x"}, {"--layouts", "2y"},
		{"--layouts", "5x2"}, {"--layouts", "-1"},
		{"--rate", "0"}, {"--tenants", "3", "--watched", "1"}, {"--tenants", "10", "--watched", "11"},
		{"--pods", "399"}, {"more"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q are taken", args)
		}
	}
}

// TestTenantsAreSplit: the owner of each tenant is the group in whose range it is, and
// groups have about the same number.
func TestTenantsAreSplit(t *testing.T) {
	for _, l := range []layout{{1, 1}, {1, 2}, {2, 1}, {3, 1}, {4, 2}} {
		for _, tenants := range []int{4, 10, 400} {
			next := 0
			for g := range l.groups {
				from, to := l.bounds(g, tenants)
				if from != next || to <= from {
					t.Errorf("%v of %d: group %d has %d to %d", l, tenants, g, from, to)
				}
				if n := to - from; n < tenants/l.groups || n > tenants/l.groups+1 {
					t.Errorf("%v of %d: group %d has %d", l, tenants, g, n)
				}
				next = to
				for tenant := from; tenant < to; tenant++ {
					if l.owner(tenant, tenants) != g {
						t.Errorf("%v of %d: %d is not owned by %d", l, tenants, tenant, g)
					}
					for n := range 3 {
						server := l.server(tenant, tenants, n)
						if server >= l.servers() || l.group(server) != string(rune('0'+g)) {
							t.Errorf("%v: server %d of group %s for group %d", l, server, l.group(server), g)
						}
					}
				}
			}
			if next != tenants {
				t.Errorf("%v of %d: %d have an owner", l, tenants, next)
			}
		}
	}
	if l := (layout{0, 1}); l.servers() != 1 || l.group(0) != "" || l.server(5, 10, 3) != 0 {
		t.Errorf("without groups: %d servers, group %q", l.servers(), l.group(0))
	}
}

func TestWatchedTenantsAreOfAllGroups(t *testing.T) {
	for _, watched := range []int{1, 4, 7, 40} {
		l := &load{cluster: &cluster{settings: &settings{tenants: 40, watched: watched}}}
		n := 0
		for tenant := range 40 {
			if l.watches(tenant) {
				n++
			}
		}
		if n != watched {
			t.Errorf("%d tenants are watched, want %d", n, watched)
		}
	}
}

func TestEventsAreOfTheirWrite(t *testing.T) {
	now := time.Now()
	l := &load{id: "of this trial", began: []time.Time{now, now.Add(time.Second)}}
	l.see(l.prefix()+"1", now.Add(3*time.Second), &l.ofAll)
	l.see("write of an earlier trial 0", now.Add(3*time.Second), &l.ofAll)
	l.see(l.prefix()+"7", now.Add(3*time.Second), &l.ofAll)
	if want := []time.Duration{2 * time.Second}; !slices.Equal(l.ofAll, want) {
		t.Errorf("times are %v, want %v", l.ofAll, want)
	}
}

func TestRoundsBeginWithAnotherLayout(t *testing.T) {
	all := []layout{{1, 1}, {2, 1}, {4, 1}}
	if got := sides.InTurn(4, all); got[0] != all[1] || len(got) != 3 {
		t.Errorf("round 5 has %v", got)
	}
}
