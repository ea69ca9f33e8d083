package ownership

import (
	"cmp"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
)

// Config is what one DataPartitionConfig says.
type Config struct {
	// Name is that of the object, Created the revision at which it was made.
	Name    string
	Created int64
	Group   string
	Span    Span
	// Tenants are owned wherever their names lie.
	Tenants []string
}

// NewConfig reads an object that was made at a revision.
func NewConfig(in *partitionapi.DataPartitionConfig, created int64) Config {
	c := Config{Name: in.Name, Created: created, Group: in.ServiceGroupID, Tenants: in.Tenants, Span: Span{Open: true}}
	if in.IsRangeStartValid {
		c.Span.Lo = in.RangeStart
	}
	if in.IsRangeEndValid {
		c.Span.Hi, c.Span.Open = in.RangeEnd, false
	}
	return c
}

// Span is the names of tenants from Lo, inclusive, to Hi, exclusive (data partition seed).
type Span struct {
	Lo, Hi string
	// Open is a span without an end, where Hi does not count.
	Open bool
}

// String is the span as people write it.
func (s Span) String() string {
	if s.Open {
		return "[" + s.Lo + ", )"
	}
	return "[" + s.Lo + ", " + s.Hi + ")"
}

// Has reports whether a name is in the span.
func (s Span) Has(name string) bool { return name >= s.Lo && (s.Open || name < s.Hi) }

// Empty reports whether no name is in the span.
func (s Span) Empty() bool { return !s.Open && s.Lo >= s.Hi }

// Table says who owns which tenant.
type Table struct {
	// segments cover all names, in order.
	segments []segment
	groups   map[string][]Span
}

// segment is the names from lo, inclusive, up to the lo of the next one, exclusive.
type segment struct {
	lo    string
	owner string
	owned bool
}

// NewTable makes the table of these configurations. Of two that one group has, the older
// one counts. Where ranges overlap, the one with the greatest start does, then the
// smallest name of a group; a tenant that is listed belongs to who lists it.
func NewTable(configs []Config) *Table {
	configs = valid(configs)
	t := &Table{groups: map[string][]Span{}}
	for _, lo := range bounds(configs) {
		p := segment{lo: lo}
		p.owner, p.owned = owner(configs, lo)
		if n := len(t.segments); n > 0 && t.segments[n-1].owned == p.owned && t.segments[n-1].owner == p.owner {
			continue
		}
		t.segments = append(t.segments, p)
	}
	for _, c := range configs {
		t.groups[c.Group] = []Span{}
	}
	for i, p := range t.segments {
		if !p.owned {
			continue
		}
		s := Span{Lo: p.lo, Open: i == len(t.segments)-1}
		if !s.Open {
			s.Hi = t.segments[i+1].lo
		}
		t.groups[p.owner] = append(t.groups[p.owner], s)
	}
	return t
}

// Overlaps are pairs of groups whose ranges have names in common, in order. What a group
// lists besides does not count.
func Overlaps(configs []Config) [][2]string {
	configs = valid(configs)
	slices.SortFunc(configs, func(a, b Config) int { return cmp.Compare(a.Group, b.Group) })
	var pairs [][2]string
	for i, a := range configs {
		for _, b := range configs[i+1:] {
			if a.Span.Empty() || b.Span.Empty() || !a.Span.Has(b.Span.Lo) && !b.Span.Has(a.Span.Lo) {
				continue
			}
			pairs = append(pairs, [2]string{a.Group, b.Group})
		}
	}
	return pairs
}

// valid leaves out what could be stored past validation: the younger configurations of
// a group. Who has an empty range may still list tenants.
func valid(configs []Config) []Config {
	sorted := slices.SortedFunc(slices.Values(configs), func(a, b Config) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Name, b.Name))
	})
	seen := map[string]bool{}
	return slices.DeleteFunc(sorted, func(c Config) bool {
		again := seen[c.Group]
		seen[c.Group] = true
		return again
	})
}

// bounds are the names at which the owner may change, in order. The least is the empty
// name, before all others.
func bounds(configs []Config) []string {
	all := []string{""}
	for _, c := range configs {
		all = append(all, c.Span.Lo)
		if !c.Span.Open {
			all = append(all, c.Span.Hi)
		}
		for _, name := range c.Tenants {
			all = append(all, name, after(name))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// after is the name that follows immediately.
func after(name string) string { return name + "\x00" }

func owner(configs []Config, name string) (group string, ok bool) {
	var best *Config
	var listed bool
	for i := range configs {
		c := &configs[i]
		lists := slices.Contains(c.Tenants, name)
		if !lists && !c.Span.Has(name) {
			continue
		}
		switch {
		case best == nil, lists && !listed:
		case listed && !lists:
			continue
		case lists && c.Group > best.Group:
			continue
		case !lists && (c.Span.Lo < best.Span.Lo || c.Span.Lo == best.Span.Lo && c.Group > best.Group):
			continue
		}
		best, listed = c, lists
	}
	if best == nil {
		return "", false
	}
	return best.Group, true
}

// Owner is the group that owns a tenant; ok is false where the configurations have a
// gap.
func (t *Table) Owner(tenant string) (group string, ok bool) {
	i, found := slices.BinarySearchFunc(t.segments, tenant, func(p segment, name string) int {
		return strings.Compare(p.lo, name)
	})
	if !found {
		i--
	}
	return t.segments[i].owner, t.segments[i].owned
}

// Configured reports whether a group has a configuration.
func (t *Table) Configured(group string) bool {
	_, ok := t.groups[group]
	return ok
}

// Groups are those that have a configuration, in order.
func (t *Table) Groups() []string {
	names := make([]string, 0, len(t.groups))
	for name := range t.groups {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Holds reports whether the servers of a group list, watch and cache a tenant: its owner's do,
// and those of a group without a configuration hold all.
func (t *Table) Holds(group, tenant string) bool {
	if !t.Configured(group) {
		return true
	}
	owner, ok := t.Owner(tenant)
	return ok && owner == group
}

// Streams reports whether the stream of a group has the events of a tenant: its owner's
// has, and Rest's those of the system and of tenants that nobody owns.
func (t *Table) Streams(group, tenant string) bool {
	if tenant == space.System {
		return group == partitionapi.Rest
	}
	if owner, ok := t.Owner(tenant); ok {
		return owner == group
	}
	return group == partitionapi.Rest
}

// Streamed are the streams that have all objects together: those of the groups that may own
// a tenant, in order, and Rest.
func (t *Table) Streamed() []string {
	names := make([]string, 0, len(t.groups)+1)
	for _, name := range t.Groups() {
		if len(t.groups[name]) > 0 {
			names = append(names, name)
		}
	}
	return append(names, partitionapi.Rest)
}

// HoldsAll reports whether the servers of a group hold every tenant.
func (t *Table) HoldsAll(group string) bool {
	spans := t.Spans(group)
	return len(spans) == 1 && spans[0].Open && spans[0].Lo == ""
}

// Spans are the names that a group holds, in order, without touching each other. Rest
// holds the gaps.
func (t *Table) Spans(group string) []Span {
	if group == partitionapi.Rest {
		if len(t.groups) == 0 {
			return []Span{{Open: true}}
		}
		return t.Gaps()
	}
	if spans, ok := t.groups[group]; ok {
		return spans
	}
	return []Span{{Open: true}}
}

// Gaps are the names that nobody owns, in order. There are none without configurations:
// then every server has everything.
func (t *Table) Gaps() []Span {
	var gaps []Span
	for i, p := range t.segments {
		if p.owned || len(t.groups) == 0 {
			continue
		}
		s := Span{Lo: p.lo, Open: i == len(t.segments)-1}
		if !s.Open {
			s.Hi = t.segments[i+1].lo
		}
		gaps = append(gaps, s)
	}
	return gaps
}
