package ownership

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// config makes one from a range as people write it: "" is open.
func config(group, start, end string, tenants ...string) Config {
	return Config{Name: "c" + group, Created: 10, Group: group, Tenants: tenants,
		Span: Span{Lo: start, Hi: end, Open: end == ""}}
}

// TestSeedRangeTable: the seed's fields say which names a group has, for every
// combination of valid and invalid bounds.
func TestSeedRangeTable(t *testing.T) {
	for _, c := range []struct {
		start      string
		startValid bool
		end        string
		endValid   bool
		name       string
		want       bool
	}{
		{"", false, "", false, "a", true},
		{"b", false, "", false, "a", true}, // a value that is not valid is ignored
		{"", false, "b", false, "z", true},
		{"b", false, "c", false, "z", true},
		{"b", true, "", false, "a", false},
		{"b", true, "", false, "b", true}, // the start is included
		{"b", true, "", false, "z", true},
		{"b", true, "c", false, "z", true},
		{"", false, "c", true, "a", true},
		{"", false, "c", true, "c", false}, // the end is not
		{"", false, "c", true, "z", false},
		{"d", false, "c", true, "a", true},
		{"b", true, "c", true, "a", false},
		{"b", true, "c", true, "b-x", true},
		{"b", true, "c", true, "c", false},
		{"A", false, "m", true, "l", true}, // the example of the seed
	} {
		in := &partitionapi.DataPartitionConfig{RangeStart: c.start, IsRangeStartValid: c.startValid,
			RangeEnd: c.end, IsRangeEndValid: c.endValid, ServiceGroupID: "1"}
		table := NewTable([]Config{NewConfig(in, 1)})
		group, ok := table.Owner(c.name)
		if ok != c.want || ok && group != "1" {
			t.Errorf("%+v: owner %q, %v", c, group, ok)
		}
		if held := table.Holds("1", c.name); held != c.want {
			t.Errorf("%+v: held: %v", c, held)
		}
	}
}

func TestOwners(t *testing.T) {
	for _, c := range []struct {
		what    string
		configs []Config
		want    map[string]string // owners, "" for none
	}{
		{"none", nil, map[string]string{"a": ""}},
		{"two halves", []Config{config("0", "", "m"), config("1", "m", "")},
			map[string]string{"": "0", "a": "0", "lzz": "0", "m": "1", "z": "1"}},
		{"a gap", []Config{config("0", "", "d"), config("1", "m", "")},
			map[string]string{"c": "0", "d": "", "l": "", "m": "1"}},
		{"an overlap: the greatest start", []Config{config("0", "", "m"), config("1", "d", "")},
			map[string]string{"c": "0", "d": "1", "l": "1", "z": "1"}},
		{"an overlap of the same start: the smallest group", []Config{config("2", "d", "z"), config("1", "d", "m")},
			map[string]string{"e": "1", "n": "2"}},
		{"a hole in a larger range", []Config{config("0", "", ""), config("1", "d", "e")},
			map[string]string{"c": "0", "d": "1", "d-x": "1", "e": "0"}},
		{"listed tenants", []Config{config("0", "", "m", "zoo"), config("1", "m", "", "a")},
			map[string]string{"a": "1", "a-b": "0", "a0": "0", "zoo": "0", "zo": "1", "zoo-1": "1"}},
		{"a list alone", []Config{config("0", "", ""), config("1", "x", "x", "hot")},
			map[string]string{"hot": "1", "x": "0"}},
		{"listed twice", []Config{config("2", "x", "x", "hot"), config("1", "y", "y", "hot")},
			map[string]string{"hot": "1"}},
		{"two of a group: the older", []Config{
			{Name: "young", Created: 20, Group: "0", Span: Span{Open: true}},
			{Name: "old", Created: 10, Group: "0", Span: Span{Lo: "m", Open: true}},
		}, map[string]string{"a": "", "m": "0"}},
	} {
		table := NewTable(c.configs)
		for tenant, want := range c.want {
			got, ok := table.Owner(tenant)
			if ok != (want != "") || got != want {
				t.Errorf("%s: %q has owner %q, %v, want %q", c.what, tenant, got, ok, want)
			}
		}
	}
}

func TestSpans(t *testing.T) {
	table := NewTable([]Config{config("0", "", "m", "zoo"), config("1", "p", "", "a")})
	for group, want := range map[string][]Span{
		"0": {{Lo: "", Hi: "a"}, {Lo: "a\x00", Hi: "m"}, {Lo: "zoo", Hi: "zoo\x00"}},
		"1": {{Lo: "a", Hi: "a\x00"}, {Lo: "p", Hi: "zoo"}, {Lo: "zoo\x00", Open: true}},
		"2": {{Open: true}}, // it has no configuration
	} {
		if got := table.Spans(group); !reflect.DeepEqual(got, want) {
			t.Errorf("group %s: %+v, want %+v", group, got, want)
		}
	}
	if got, want := table.Gaps(), []Span{{Lo: "m", Hi: "p"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("gaps %+v, want %+v", got, want)
	}
	if gaps := NewTable(nil).Gaps(); len(gaps) > 0 {
		t.Errorf("gaps without configurations: %+v", gaps)
	}
	if got, want := table.Groups(), []string{"0", "1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
}

func TestOverlaps(t *testing.T) {
	for _, c := range []struct {
		what    string
		configs []Config
		want    [][2]string
	}{
		{"neighbours", []Config{config("0", "", "m"), config("1", "m", "")}, nil},
		{"a gap", []Config{config("0", "", "k"), config("1", "m", "")}, nil},
		{"some names", []Config{config("1", "k", ""), config("0", "", "m")}, [][2]string{{"0", "1"}}},
		{"all names", []Config{config("0", "", ""), config("1", "", "")}, [][2]string{{"0", "1"}}},
		{"one within the other", []Config{config("0", "a", "z"), config("1", "k", "m")}, [][2]string{{"0", "1"}}},
		{"an empty one", []Config{config("0", "", ""), config("1", "a", "a")}, nil},
		{"a listed tenant", []Config{config("0", "", "m", "zoo"), config("1", "m", "")}, nil},
	} {
		if got := Overlaps(c.configs); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func TestMoves(t *testing.T) {
	none := NewTable(nil)
	before := NewTable([]Config{config("0", "", "m"), config("1", "m", "")})
	after := NewTable([]Config{config("0", "", "g"), config("1", "g", "")})
	pinned := NewTable([]Config{config("0", "", "m", "zoo"), config("1", "m", "")})
	for _, c := range []struct {
		what       string
		from, to   *Table
		group      string
		gone, come []Span
	}{
		{"nothing", before, before, "0", nil, nil},
		{"the boundary, old owner", before, after, "0", []Span{{Lo: "g", Hi: "m"}}, nil},
		{"the boundary, new owner", before, after, "1", nil, []Span{{Lo: "g", Hi: "m"}}},
		{"a first configuration", none, before, "0", []Span{{Lo: "m", Open: true}}, nil},
		{"no configuration any more", before, none, "0", nil, []Span{{Lo: "m", Open: true}}},
		{"a group without a configuration", before, after, "2", nil, nil},
		{"a listed tenant, old owner", before, pinned, "1", []Span{{Lo: "zoo", Hi: "zoo\x00"}}, nil},
		{"a listed tenant, new owner", before, pinned, "0", nil, []Span{{Lo: "zoo", Hi: "zoo\x00"}}},
	} {
		gone, come := Moves(c.from, c.to, c.group)
		if fmt.Sprint(gone) != fmt.Sprint(c.gone) || fmt.Sprint(come) != fmt.Sprint(c.come) {
			t.Errorf("%s: gone %+v, come %+v, want %+v, %+v", c.what, gone, come, c.gone, c.come)
		}
	}
}
