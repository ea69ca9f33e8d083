package etcd

import (
	"errors"
	"testing"
)

func member(id uint64, name, ip string) Member {
	return Member{ID: id, Name: name, PeerURLs: []string{"https://" + ip + ":2380"},
		ClientURLs: []string{"https://" + ip + ":2379"}}
}

func TestPlanJoin(t *testing.T) {
	one, two := member(1, "one", "10.0.0.1"), member(2, "two", "10.0.0.2")
	for _, tc := range []struct {
		name    string
		members []Member
		alive   bool // whether who has the name answers
		node    string
		ip      string
		want    joinAction
		id      uint64
		refused bool
	}{
		{name: "new", members: []Member{one, two}, node: "three", ip: "10.0.0.3", want: joinAdd},
		{name: "an earlier try added it", members: []Member{one, member(3, "", "10.0.0.3")}, node: "three",
			ip: "10.0.0.3", want: joinReuse, id: 3},
		{name: "another's try", members: []Member{one, member(3, "", "10.0.0.9")}, node: "three",
			ip: "10.0.0.3", want: joinAdd},
		{name: "its disk is new", members: []Member{one, two}, node: "two", ip: "10.0.0.2", want: joinReplace, id: 2},
		{name: "its disk and name are new", members: []Member{one, two}, node: "zwei", ip: "10.0.0.2",
			want: joinReplace, id: 2},
		{name: "its disk and address are new", members: []Member{one, two}, node: "two", ip: "10.0.0.3",
			want: joinReplace, id: 2},
		{name: "another runs under its name", members: []Member{one, two}, alive: true, node: "two",
			ip: "10.0.0.3", refused: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, id, err := planJoin(tc.members, tc.node, "https://"+tc.ip+":2380", func(Member) bool {
				return tc.alive
			})
			if tc.refused {
				if !errors.Is(err, errNameTaken) {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err != nil || got != tc.want || id != tc.id {
				t.Errorf("planJoin = %d, %d, %v, want %d, %d", got, id, err, tc.want, tc.id)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	disk := &Disk{Self: 2, Cluster: 7}
	one, two := member(1, "one", "10.0.0.1"), member(2, "two", "10.0.0.2")
	for _, tc := range []struct {
		name string
		v    view
		ip   string
		want standing
	}{
		{"as it was", view{7, []Member{one, two}}, "10.0.0.2", standingGood},
		{"it moved", view{7, []Member{one, two}}, "10.0.0.5", standingMoved},
		{"removed", view{7, []Member{one}}, "10.0.0.2", standingRemoved},
		{"removed, and its address has another", view{7, []Member{one, member(9, "two", "10.0.0.2")}},
			"10.0.0.2", standingRemoved},
		{"another cluster", view{8, []Member{one, two}}, "10.0.0.2", standingForeign},
	} {
		if got := judge(disk, "https://"+tc.ip+":2380", tc.v); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestPlanRemoval(t *testing.T) {
	one, two := member(1, "one", "10.0.0.1"), member(2, "two", "10.0.0.2")
	learner := two
	learner.Learner = true
	for _, tc := range []struct {
		name    string
		members []Member
		node    string
		want    Removal
		id      uint64
	}{
		{"of two", []Member{one, two}, "two", RemoveMember, 2},
		{"no server", []Member{one, two}, "worker", RemoveNothing, 0},
		{"the only one", []Member{one}, "one", RemoveRefused, 1},
		{"the only one with a vote", []Member{one, learner}, "one", RemoveRefused, 1},
		{"one without a vote", []Member{one, learner}, "two", RemoveMember, 2},
		{"by its ID", []Member{one, member(0xab, "", "10.0.0.3")}, "ab", RemoveMember, 0xab},
		{"one that never started has no name", []Member{one, member(3, "", "10.0.0.3")}, "three", RemoveNothing, 0},
	} {
		if got, m := PlanRemoval(tc.members, tc.node); got != tc.want || m.ID != tc.id {
			t.Errorf("%s: %d of %d, want %d of %d", tc.name, got, m.ID, tc.want, tc.id)
		}
	}
}

func TestClustered(t *testing.T) {
	for _, tc := range []struct {
		name string
		disk *Disk
		want bool
	}{
		{"no data", nil, false},
		{"a single server", &Disk{Members: []Member{member(1, "a4s", "127.0.0.1")}}, false},
		{"one that others may join", &Disk{Members: []Member{member(1, "one", "10.0.0.1")}}, true},
		{"one of several", &Disk{Members: []Member{member(1, "one", "10.0.0.1"), member(2, "two", "10.0.0.2")}}, true},
	} {
		if got := tc.disk.Clustered(); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
