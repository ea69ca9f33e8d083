package balance

import (
	"cmp"
	"maps"
	"slices"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

const (
	// tolerated is how much more than its neighbour a group may weigh.
	tolerated = 1.2
	// worth is the part of its weight that a group has to lose by a move, at least.
	worth = 100
)

// nobody is a range without tenants: its start is its end.
const nobody = "a"

// Group is what a service group owns.
type Group struct {
	ID string
	// Config is its configuration, nil for what nobody owns.
	Config  *partitionapi.DataPartitionConfig
	Tenants int
	Load    Load
	// Share is its part of the load of all groups, from 0 to 1.
	Share float64

	weight int64
	span   ownership.Span
	// ranged are the tenants that it owns by its range, in order.
	ranged []string
}

// Proposal is what to store.
type Proposal struct {
	// From loses tenants to To.
	From, To string
	// Tenants are those that move, and Load what they have.
	Tenants []string
	Load    Load
	// Configs are the configurations to store, in this order.
	Configs []*partitionapi.DataPartitionConfig
	// Interrupted is set for the rest of one of which a part was stored. Its tenants and
	// their load are not known.
	Interrupted bool
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
	unowned, weights, all := &Group{}, loads.weights(), int64(0)
	for _, tenant := range slices.Sorted(maps.Keys(loads)) {
		g := unowned
		if owner, ok := table.Owner(tenant); ok {
			g = byGroup[owner]
		}
		g.Tenants++
		g.Load.Add(loads[tenant])
		g.weight += weights[tenant]
		all += weights[tenant]
		if g.Config != nil && !slices.Contains(g.Config.Tenants, tenant) {
			g.ranged = append(g.ranged, tenant)
		}
	}
	var groups []Group
	for _, g := range byGroup {
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.span.Lo, b.span.Lo), cmp.Compare(a.ID, b.ID))
	})
	if unowned.Tenants > 0 && len(configs) > 0 {
		groups = append(groups, *unowned)
	}
	for i := range groups {
		groups[i].Share = float64(groups[i].weight) / float64(max(all, 1))
	}
	return groups
}

// adjacent reports whether the range of b begins where that of a ends.
func adjacent(a, b Group) bool {
	return a.Config != nil && b.Config != nil && !a.span.Empty() && !b.span.Empty() && !a.span.Open &&
		a.span.Hi == b.span.Lo && b.Config.IsRangeStartValid
}

// Suggest proposes the move that helps most, nil if the groups are balanced or no boundary
// between two tenants helps. Tenants move to groups that run only.
func Suggest(configs []partitionapi.DataPartitionConfig, loads Loads, runs func(group string) bool) *Proposal {
	groups, weights := Groups(configs, loads), loads.weights()
	var best *Proposal
	var saved int64
	for i := range len(groups) - 1 {
		a, b := groups[i], groups[i+1]
		if !adjacent(a, b) || float64(max(a.weight, b.weight)) <= tolerated*float64(min(a.weight, b.weight)) {
			continue
		}
		p, moved := between(a, b, weights)
		if p == nil || !runs(p.To) {
			continue
		}
		before := max(a.weight, b.weight)
		after := max(before-moved, min(a.weight, b.weight)+moved)
		if before-after > max(saved, before/worth) {
			best, saved = p, before-after
		}
	}
	if best != nil {
		for _, tenant := range best.Tenants {
			best.Load.Add(loads[tenant])
		}
	}
	return best
}

// between moves tenants at the boundary of two neighbours from the one that weighs more. It
// returns what they weigh, too.
func between(a, b Group, weights map[string]int64) (_ *Proposal, moved int64) {
	right := a.weight > b.weight // tenants move to the right
	from, to, moving := b, a, slices.Clone(b.ranged)
	if right {
		from, to, moving = a, b, slices.Clone(a.ranged)
		slices.Reverse(moving)
	}
	difference := from.weight - to.weight
	count, weight := 0, int64(0)
	for i, tenant := range moving {
		weight += weights[tenant]
		if distance(difference, weight) >= distance(difference, moved) {
			continue // one that has nothing may come before one that helps
		}
		count, moved = i+1, weight
	}
	if count == 0 || !right && count == len(moving) {
		return nil, 0 // where the range would begin is not known
	}
	boundary := moving[count-1]
	if !right {
		boundary = moving[count]
	}
	left, next := a.Config.DeepCopy(), b.Config.DeepCopy()
	left.RangeEnd, next.RangeStart = boundary, boundary
	p := &Proposal{From: from.ID, To: to.ID, Tenants: moving[:count],
		Configs: []*partitionapi.DataPartitionConfig{left, next}}
	if right {
		slices.Reverse(p.Configs)
	}
	slices.Sort(p.Tenants)
	return p, moved
}

// distance is what two groups differ by after a move.
func distance(difference, moved int64) int64 {
	d := difference - 2*moved
	return max(d, -d)
}
