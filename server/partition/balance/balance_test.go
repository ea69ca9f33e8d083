package balance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// config is the configuration of a group, "" for an open end.
func config(group, start, end string, tenants ...string) partitionapi.DataPartitionConfig {
	c := partitionapi.DataPartitionConfig{ServiceGroupID: group, Tenants: tenants, RangeStart: start, RangeEnd: end,
		IsRangeStartValid: start != "", IsRangeEndValid: end != ""}
	c.Name = "of-" + group
	return c
}

func text(p *Proposal) string {
	if p == nil {
		return "nothing"
	}
	out := fmt.Sprintf("%s to %s %v %d:", p.From, p.To, p.Tenants, p.Load)
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
		loads   Loads
		want    string
	}{
		{"no groups", nil, Loads{"a": 5}, "nothing"},
		{"one group", two[:1], Loads{"a": 5}, "nothing"},
		{"balanced", two, Loads{"a": 10, "z": 10}, "nothing"},
		{"less than a fifth", two, Loads{"a": 6, "b": 5, "z": 10}, "nothing"},
		{"to the right", two, Loads{"a": 10, "b": 10, "c": 10, "z": 10},
			"0 to 1 [c] 10: 1=[c,)[] 0=[,c)[]"},
		{"to the left", two, Loads{"a": 10, "n": 10, "o": 10, "z": 10},
			"1 to 0 [n] 10: 0=[,o)[] 1=[o,)[]"},
		{"one large tenant", two, Loads{"a": 100, "z": 10}, "nothing"},
		{"everything is on the right", two, Loads{"n": 10, "o": 10}, "1 to 0 [n] 10: 0=[,o)[] 1=[o,)[]"},
		{"a listed tenant stays", []partitionapi.DataPartitionConfig{config("0", "", "m", "y"), config("1", "m", "")},
			Loads{"a": 5, "b": 5, "y": 20, "z": 10}, "0 to 1 [a b] 10: 1=[a,)[] 0=[,a)[y]"},
		{"ranges that do not touch", []partitionapi.DataPartitionConfig{config("0", "", "k"), config("1", "m", "")},
			Loads{"a": 10, "b": 10, "c": 10}, "nothing"},
		{"the worse of two pairs", []partitionapi.DataPartitionConfig{
			config("0", "", "h"), config("1", "h", "p"), config("2", "p", "")},
			Loads{"a": 10, "b": 10, "i": 10, "q": 30, "r": 30, "s": 30},
			"2 to 1 [q] 30: 1=[h,r)[] 2=[r,)[]"},
	} {
		if got := text(Suggest(c.configs, c.loads)); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
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
		p, err := Drain(three, Loads{"a": 1, "i": 3, "q": 2, "zoo": 2}, c.group)
		if !errors.Is(err, c.err) || err == nil && text(p) != c.want {
			t.Errorf("group %s: %s, %v, want %s", c.group, text(p), err, c.want)
		}
	}
	drained := []partitionapi.DataPartitionConfig{config("0", "a", "a"), config("1", "", "")}
	if _, err := Drain(drained, nil, "0"); !errors.Is(err, errDrained) {
		t.Errorf("a group that is drained: %v", err)
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
			loads[fmt.Sprintf("%c%d", 'a'+random.IntN(26), random.IntN(10))] = int64(random.IntN(100))
		}
		bounds := []string{"", string(rune('b' + random.IntN(10))), string(rune('m' + random.IntN(10))), ""}
		var configs []partitionapi.DataPartitionConfig
		for i := range 3 {
			configs = append(configs, config(fmt.Sprint(i), bounds[i], bounds[i+1]))
		}
		p := Suggest(configs, loads)
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
