package balance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/cluster/servers"
	"github.com/a4s-io/a4s/server/groups/load"
)

// config is the configuration of a group, "" for an open end.
func config(group, start, end string, tenants ...string) partitionapi.DataPartitionConfig {
	c := partitionapi.DataPartitionConfig{ServiceGroupID: group, Tenants: tenants, RangeStart: start, RangeEnd: end,
		IsRangeStartValid: start != "", IsRangeEndValid: end != ""}
	c.Name = "of-" + group
	return c
}

// objectsOf are loads of objects only.
type objectsOf map[string]int64

func (o objectsOf) loads() Loads {
	loads := Loads{}
	for name, n := range o {
		loads[name] = Load{Objects: n}
	}
	return loads
}

// all is for groups that run.
func all(string) bool { return true }

// twoServers are one of each of two groups.
var twoServers = []servers.Server{{Name: "s0", Group: "0", Ready: true}, {Name: "s1", Group: "1", Ready: true}}

func text(p *Proposal) string {
	if p == nil {
		return "nothing"
	}
	out := fmt.Sprintf("%s to %s %v %d:", p.From, p.To, p.Tenants, p.Load.Objects)
	for _, c := range p.Configs {
		out += fmt.Sprintf(" %s=[%s,%s)%v", c.ServiceGroupID, c.RangeStart, c.RangeEnd, c.Tenants)
	}
	return out
}

func TestSuggest(t *testing.T) {
	two := []partitionapi.DataPartitionConfig{config("0", "", "m"), config("1", "m", "")}
	for _, c := range []struct {
		what    string
		configs []partitionapi.DataPartitionConfig
		loads   objectsOf
		want    string
	}{
		{"no groups", nil, objectsOf{"a": 5}, "nothing"},
		{"one group", two[:1], objectsOf{"a": 5}, "nothing"},
		{"balanced", two, objectsOf{"a": 10, "z": 10}, "nothing"},
		{"less than a fifth", two, objectsOf{"a": 6, "b": 5, "z": 10}, "nothing"},
		{"to the right", two, objectsOf{"a": 10, "b": 10, "c": 10, "z": 10},
			"0 to 1 [c] 10: 1=[c,)[] 0=[,c)[]"},
		{"to the left", two, objectsOf{"a": 10, "n": 10, "o": 10, "z": 10},
			"1 to 0 [n] 10: 0=[,o)[] 1=[o,)[]"},
		{"one large tenant", two, objectsOf{"a": 100, "z": 10}, "nothing"},
		{"everything is on the right", two, objectsOf{"n": 10, "o": 10}, "1 to 0 [n] 10: 0=[,o)[] 1=[o,)[]"},
		{"a listed tenant stays", []partitionapi.DataPartitionConfig{config("0", "", "m", "y"), config("1", "m", "")},
			objectsOf{"a": 5, "b": 5, "y": 20, "z": 10}, "0 to 1 [a b] 10: 1=[a,)[] 0=[,a)[y]"},
		{"ranges that do not touch", []partitionapi.DataPartitionConfig{config("0", "", "k"), config("1", "m", "")},
			objectsOf{"a": 10, "b": 10, "c": 10}, "nothing"},
		{"the worse of two pairs", []partitionapi.DataPartitionConfig{
			config("0", "", "h"), config("1", "h", "p"), config("2", "p", "")},
			objectsOf{"a": 10, "b": 10, "i": 10, "q": 30, "r": 30, "s": 30},
			"2 to 1 [q] 30: 1=[h,r)[] 2=[r,)[]"},
	} {
		if got := text(Suggest(c.configs, c.loads.loads(), all)); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// TestWeights: objects, writes and what is sent to watches count alike, as parts of what
// the cluster has; what a few requests cost does not.
func TestWeights(t *testing.T) {
	two := []partitionapi.DataPartitionConfig{config("0", "", "m"), config("1", "m", "")}
	of := func(objects int64, writes, bytes float64) Load {
		return Load{Objects: objects, Rate: load.Rate{Writes: writes, WatchBytes: bytes}}
	}
	for _, c := range []struct {
		what  string
		loads Loads
		want  string
	}{
		{"writes", Loads{"a": of(10, 50, 0), "b": of(10, 50, 0), "y": of(10, 0, 0), "z": of(10, 0, 0)},
			"0 to 1 [b] 10: 1=[b,)[] 0=[,b)[]"},
		{"watches", Loads{"a": of(10, 0, 0), "b": of(10, 0, 0), "y": of(10, 0, 1e6), "z": of(10, 0, 1e6)},
			"1 to 0 [y] 10: 0=[,z)[] 1=[z,)[]"},
		{"less than anybody would notice", Loads{"a": of(10, 0.2, 900), "b": of(10, 0.2, 900), "z": of(20, 0, 0)},
			"nothing"},
		{"writes against watches", Loads{"a": of(10, 100, 0), "b": of(10, 100, 0), "y": of(10, 0, 1e6),
			"z": of(10, 0, 1e6)}, "nothing"},
		{"a small tenant that writes", Loads{"a": of(1, 100, 1e6), "b": of(1000, 0, 0), "z": of(1, 0, 0)},
			"0 to 1 [b] 1000: 1=[b,)[] 0=[,b)[]"},
		{"hardly better", Loads{"a": of(1000, 0, 0), "b": of(1, 0, 0), "z": of(10, 0, 0)}, "nothing"},
	} {
		if got := text(Suggest(two, c.loads, all)); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	groups := Groups(two, Loads{"a": of(10, 30, 0), "z": of(10, 10, 3e6)})
	if len(groups) != 2 || fmt.Sprintf("%.3f", groups[0].Share) != "0.417" || groups[1].Load != of(10, 10, 3e6) {
		t.Errorf("%+v", groups)
	}
	if got := groups[1].Load.String(); got != "10 objects, 10.0 writes/s and 3000.0 kB/s to watches" {
		t.Error(got)
	}
}

// TestNobodyMovesToTheDead: a group without servers gets no tenants, and gives some.
func TestNobodyMovesToTheDead(t *testing.T) {
	loads := objectsOf{"a": 10, "b": 10, "c": 10, "z": 10}.loads()
	s := State{Configs: []partitionapi.DataPartitionConfig{config("0", "", "m"), config("1", "m", "")}, Loads: loads,
		Servers: []servers.Server{{Name: "s0", Group: "0", Ready: true}, {Name: "s1", Group: "1"}}}
	if p := s.Suggest(); p != nil {
		t.Errorf("its server is not ready: %s", text(p))
	}
	s.Servers[1].Ready, s.Servers[0].Ready = true, false
	if p := s.Suggest(); p == nil || p.To != "1" {
		t.Errorf("the other server is not ready: %s", text(p))
	}
}

func TestDrain(t *testing.T) {
	three := []partitionapi.DataPartitionConfig{
		config("0", "", "h"), config("1", "h", "p", "zoo"), config("2", "p", ""),
	}
	for _, c := range []struct {
		group, want string
		err         error
	}{
		{"0", "0 to 1 [a] 1: 1=[,p)[zoo] 0=[a,a)[]", nil},
		{"1", "1 to 0 [i zoo] 5: 0=[,p)[] 1=[a,a)[] 0=[,p)[zoo]", nil},
		{"2", "2 to 1 [q] 2: 1=[h,)[zoo] 2=[a,a)[]", nil},
		{"3", "", errNoConfig},
	} {
		p, err := Drain(three, objectsOf{"a": 1, "i": 3, "q": 2, "zoo": 2}.loads(), c.group)
		if !errors.Is(err, c.err) || err == nil && text(p) != c.want {
			t.Errorf("group %s: %s, %v, want %s", c.group, text(p), err, c.want)
		}
	}
	for _, group := range []string{"0", "1", "2"} {
		configs := slices.Clone(three)
		apply := func(p *Proposal, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("group %s: %v", group, err)
			}
			for _, c := range p.Configs {
				configs[slices.IndexFunc(configs, func(o partitionapi.DataPartitionConfig) bool {
					return o.Name == c.Name
				})] = *c
				var rules []ownership.Config
				for i := range configs {
					rules = append(rules, ownership.NewConfig(&configs[i], int64(i)))
				}
				if gaps := ownership.NewTable(rules).Gaps(); len(gaps) > 0 {
					t.Errorf("%s leaves gaps: %+v", text(p), gaps)
				}
			}
		}
		loads := objectsOf{"a": 1, "i": 3, "q": 2, "zoo": 2}.loads()
		down, err := Drain(configs, loads, group)
		apply(down, err)
		between := slices.Clone(configs)
		up, err := Undrain(configs, loads, group)
		apply(up, err)
		if up.From != down.To || up.To != down.From || !slices.Equal(up.Tenants, down.Tenants) ||
			up.Load != down.Load {
			t.Errorf("group %s: %s was taken back by %s", group, text(down), text(up))
		}
		for i := range three {
			was, is := three[i], configs[i]
			if was.RangeStart != is.RangeStart || was.RangeEnd != is.RangeEnd ||
				was.IsRangeStartValid != is.IsRangeStartValid || was.IsRangeEndValid != is.IsRangeEndValid ||
				!slices.Equal(was.Tenants, is.Tenants) || is.Annotations[drainedAnnotation] != "" {
				t.Errorf("group %s: %+v became %+v", group, was, is)
			}
		}
		if _, err := Undrain(configs, loads, group); !errors.Is(err, errNotDrained) {
			t.Errorf("group %s, again: %v", group, err)
		}
		// Who got it has given a part of it away.
		for i := range between {
			if between[i].ServiceGroupID == down.To {
				between[i].RangeStart, between[i].RangeEnd = "i", "j"
				between[i].IsRangeStartValid, between[i].IsRangeEndValid = true, true
			}
		}
		if _, err := Undrain(between, loads, group); !errors.Is(err, errMoved) {
			t.Errorf("group %s, moved: %v", group, err)
		}
	}
	drained := []partitionapi.DataPartitionConfig{config("0", "a", "a"), config("1", "", "")}
	if _, err := Drain(drained, nil, "0"); !errors.Is(err, errDrained) {
		t.Errorf("a group that is drained: %v", err)
	}
	many := []partitionapi.DataPartitionConfig{config("0", "", "m", "own"), config("1", "m", "")}
	for i := range partitionapi.MaxTenants {
		many[1].Tenants = append(many[1].Tenants, fmt.Sprint("pinned-", i))
	}
	if _, err := Drain(many, nil, "1"); !errors.Is(err, errTooMany) {
		t.Errorf("more listed tenants than one configuration has: %v", err)
	}
	if _, err := Drain(drained, nil, "1"); !errors.Is(err, errNoNeighbour) {
		t.Errorf("the only group: %v", err)
	}
}

// TestProposalsLeaveNoGap stores proposals in their order: at no step is a tenant without
// an owner, and what is proposed makes the larger group smaller.
func TestProposalsLeaveNoGap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	proposals := 0
	for range 2000 {
		loads := Loads{}
		for range 2 + random.IntN(30) {
			loads[fmt.Sprintf("%c%d", 'a'+random.IntN(26), random.IntN(10))] = Load{
				Objects: int64(random.IntN(100)),
				Rate:    load.Rate{Writes: random.Float64() * 10, WatchBytes: float64(random.IntN(100_000))},
			}
		}
		bounds := []string{"", string(rune('b' + random.IntN(10))), string(rune('m' + random.IntN(10))), ""}
		var configs []partitionapi.DataPartitionConfig
		for i := range 3 {
			configs = append(configs, config(fmt.Sprint(i), bounds[i], bounds[i+1]))
		}
		p := Suggest(configs, loads, all)
		if random.IntN(4) == 0 {
			p, _ = Drain(configs, loads, fmt.Sprint(random.IntN(3)))
		}
		if p == nil {
			continue
		}
		proposals++
		for _, c := range p.Configs {
			i := slices.IndexFunc(configs, func(o partitionapi.DataPartitionConfig) bool { return o.Name == c.Name })
			configs[i] = *c
			var rules []ownership.Config
			for i := range configs {
				rules = append(rules, ownership.NewConfig(&configs[i], int64(i)))
			}
			if gaps := ownership.NewTable(rules).Gaps(); len(gaps) > 0 {
				t.Fatalf("%s leaves gaps: %+v", text(p), gaps)
			}
		}
		for _, g := range Groups(configs, loads) {
			for _, tenant := range p.Tenants {
				if (g.ID == p.To) != slices.Contains(g.ranged, tenant) {
					t.Fatalf("%s: tenant %s is not where it should be", text(p), tenant)
				}
			}
		}
	}
	if proposals < 500 {
		t.Errorf("only %d proposals", proposals)
	}
}
