package balance

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// tolerated is how much more than its neighbour a group may have.
const tolerated = 1.2

// nobody is a range without tenants: its start is its end.
const nobody = "a"

// Loads are how many objects each tenant has.
type Loads map[string]int64

// Group is what a service group owns.
type Group struct {
	ID string
	// Config is its configuration, nil for what nobody owns.
	Config  *partitionapi.DataPartitionConfig
	Tenants int
	Load    int64

	span ownership.Span
	// ranged are the tenants that it owns by its range, in order.
	ranged []string
}

// Proposal is what to store.
type Proposal struct {
	// From loses tenants to To.
	From, To string
	// Tenants are those that move, and Load what they have.
	Tenants []string
	Load    int64
	// Configs are the configurations to store, in this order.
	Configs []*partitionapi.DataPartitionConfig
}

// Groups are the groups in the order of their ranges, with what they own. What nobody owns
// is the last, with an empty ID, if there is any.
func Groups(configs []partitionapi.DataPartitionConfig, loads Loads) []Group {
	var rules []ownership.Config
	byGroup := map[string]*Group{}
	for i := range configs {
		c := &configs[i]
		rule := ownership.NewConfig(c, c.CreationTimestamp.Unix())
		rules = append(rules, rule)
		if byGroup[rule.Group] == nil {
			byGroup[rule.Group] = &Group{ID: rule.Group, Config: c, span: rule.Span}
		}
	}
	table := ownership.NewTable(rules)
	unowned := &Group{}
	for _, tenant := range slices.Sorted(maps.Keys(loads)) {
		g := unowned
		if owner, ok := table.Owner(tenant); ok {
			g = byGroup[owner]
		}
		g.Tenants++
		g.Load += loads[tenant]
		if g.Config != nil && !slices.Contains(g.Config.Tenants, tenant) {
			g.ranged = append(g.ranged, tenant)
		}
	}
	var all []Group
	for _, g := range byGroup {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.span.Lo, b.span.Lo), cmp.Compare(a.ID, b.ID))
	})
	if unowned.Tenants > 0 && len(configs) > 0 {
		all = append(all, *unowned)
	}
	return all
}

// adjacent reports whether the range of b begins where that of a ends.
func adjacent(a, b Group) bool {
	return a.Config != nil && b.Config != nil && !a.span.Empty() && !b.span.Empty() && !a.span.Open &&
		a.span.Hi == b.span.Lo && b.Config.IsRangeStartValid
}

// Suggest proposes the move that helps most, nil if the groups are balanced or no boundary
// between two tenants helps.
func Suggest(configs []partitionapi.DataPartitionConfig, loads Loads) *Proposal {
	groups := Groups(configs, loads)
	var best *Proposal
	var saved int64
	for i := range len(groups) - 1 {
		a, b := groups[i], groups[i+1]
		if !adjacent(a, b) || float64(max(a.Load, b.Load)) <= tolerated*float64(min(a.Load, b.Load)) {
			continue
		}
		p := between(a, b, loads)
		if p == nil {
			continue
		}
		before := max(a.Load, b.Load)
		after := max(before-p.Load, min(a.Load, b.Load)+p.Load)
		if before-after > saved {
			best, saved = p, before-after
		}
	}
	return best
}

// between moves tenants at the boundary of two neighbours from the one that has more.
func between(a, b Group, loads Loads) *Proposal {
	right := a.Load > b.Load // tenants move to the right
	from, to, moving := b, a, slices.Clone(b.ranged)
	if right {
		from, to, moving = a, b, slices.Clone(a.ranged)
		slices.Reverse(moving)
	}
	difference := from.Load - to.Load
	count, moved, load := 0, int64(0), int64(0)
	for i, tenant := range moving {
		load += loads[tenant]
		if distance(difference, load) >= distance(difference, moved) {
			continue // one that has nothing may come before one that helps
		}
		count, moved = i+1, load
	}
	if count == 0 || !right && count == len(moving) {
		return nil // where the range would begin is not known
	}
	boundary := moving[count-1]
	if !right {
		boundary = moving[count]
	}
	left, next := a.Config.DeepCopy(), b.Config.DeepCopy()
	left.RangeEnd, next.RangeStart = boundary, boundary
	p := &Proposal{From: from.ID, To: to.ID, Tenants: moving[:count], Load: moved,
		Configs: []*partitionapi.DataPartitionConfig{left, next}}
	if right {
		slices.Reverse(p.Configs)
	}
	slices.Sort(p.Tenants)
	return p
}

// distance is what two groups differ by after a move.
func distance(difference, moved int64) int64 {
	d := difference - 2*moved
	return max(d, -d)
}

var (
	errNoConfig    = errors.New("it has no configuration: its servers hold all tenants")
	errDrained     = errors.New("it owns no tenants")
	errNoNeighbour = errors.New("no range of another group begins or ends where its own does")
)

// Drain proposes to give everything that a group owns to a neighbour, so that its servers
// can stop.
func Drain(configs []partitionapi.DataPartitionConfig, loads Loads, group string) (*Proposal, error) {
	groups := Groups(configs, loads)
	i := slices.IndexFunc(groups, func(g Group) bool { return g.ID == group && g.Config != nil })
	if i < 0 {
		return nil, errNoConfig
	}
	from := groups[i]
	if from.span.Empty() && len(from.Config.Tenants) == 0 {
		return nil, errDrained
	}
	empty := from.Config.DeepCopy()
	empty.IsRangeStartValid, empty.IsRangeEndValid, empty.RangeStart, empty.RangeEnd = true, true, nobody, nobody
	empty.Tenants = nil
	var grown *partitionapi.DataPartitionConfig
	switch {
	case i > 0 && adjacent(groups[i-1], from):
		grown = groups[i-1].Config.DeepCopy()
		grown.RangeEnd, grown.IsRangeEndValid = from.Config.RangeEnd, from.Config.IsRangeEndValid
	case i+1 < len(groups) && adjacent(from, groups[i+1]):
		grown = groups[i+1].Config.DeepCopy()
		grown.RangeStart, grown.IsRangeStartValid = from.Config.RangeStart, from.Config.IsRangeStartValid
	default:
		return nil, errNoNeighbour
	}
	p := &Proposal{From: group, To: grown.ServiceGroupID, Tenants: slices.Clone(from.ranged), Load: from.Load,
		Configs: []*partitionapi.DataPartitionConfig{grown, empty}}
	p.Tenants = append(p.Tenants, from.Config.Tenants...)
	slices.Sort(p.Tenants)
	if len(from.Config.Tenants) > 0 {
		// Only one configuration lists a tenant, so these change owners in between by
		// their names.
		listed := grown.DeepCopy()
		listed.Tenants = append(slices.Clone(grown.Tenants), from.Config.Tenants...)
		p.Configs = append(p.Configs, listed)
	}
	return p, nil
}
