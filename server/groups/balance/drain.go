package balance

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// drainedAnnotation is on the configuration of a group that is drained, with what it had.
const drainedAnnotation = "a4s.io/drained"

// drained is what a group had, and who got it.
type drained struct {
	To string `json:"to"`
	content
}

var (
	errNoConfig    = errors.New("it has no configuration: its servers hold all tenants")
	errDrained     = errors.New("it owns no tenants")
	errNoNeighbour = errors.New("no range of another group begins or ends where its own does")
	errTooMany     = fmt.Errorf("it and its neighbour list more than %d tenants together", partitionapi.MaxTenants)
	errNotDrained  = errors.New("it is not drained, or its configuration has been changed since")
	errMoved       = errors.New("the group that got its range has given parts of it away since")
)

// Drain proposes to give everything that a group owns to a neighbour, so that its servers
// can stop. The configuration remembers what that was.
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
	if len(grown.Tenants)+len(from.Config.Tenants) > partitionapi.MaxTenants {
		return nil, errTooMany // the API refuses the last configuration, when the others are stored
	}
	had := drained{To: grown.ServiceGroupID, content: contentOf(from.Config)}
	had.Drained = "" // of an earlier time
	text, err := json.Marshal(had)
	if err != nil {
		return nil, fmt.Errorf("noting what it had: %w", err)
	}
	metav1.SetMetaDataAnnotation(&empty.ObjectMeta, drainedAnnotation, string(text))
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

// Undrain proposes to give a drained group back what it had.
func Undrain(configs []partitionapi.DataPartitionConfig, loads Loads, group string) (*Proposal, error) {
	of := func(id string) *partitionapi.DataPartitionConfig {
		i := slices.IndexFunc(configs, func(c partitionapi.DataPartitionConfig) bool { return c.ServiceGroupID == id })
		if i < 0 {
			return nil
		}
		return configs[i].DeepCopy()
	}
	back := of(group)
	if back == nil {
		return nil, errNoConfig
	}
	var had drained
	if json.Unmarshal([]byte(back.Annotations[drainedAnnotation]), &had) != nil ||
		!ownership.NewConfig(back, 0).Span.Empty() || len(back.Tenants) > 0 {
		return nil, errNotDrained
	}
	taker := of(had.To)
	if taker == nil {
		return nil, errMoved
	}
	delete(back.Annotations, drainedAnnotation)
	back.RangeStart, back.IsRangeStartValid = value(had.Start)
	back.RangeEnd, back.IsRangeEndValid = value(had.End)
	all := ownership.NewConfig(taker, 0).Span
	part := ownership.NewConfig(back, 0).Span
	sameEnd := part.Open && all.Open || !part.Open && !all.Open && part.Hi == all.Hi
	switch {
	case part.Empty(): // it had listed tenants only
	case sameEnd && part.Lo > all.Lo:
		taker.RangeEnd, taker.IsRangeEndValid = back.RangeStart, true
	case part.Lo == all.Lo && !part.Open && (all.Open || part.Hi < all.Hi):
		taker.RangeStart, taker.IsRangeStartValid = back.RangeEnd, true
	default:
		return nil, errMoved
	}
	taker.Tenants = slices.DeleteFunc(taker.Tenants, func(t string) bool { return slices.Contains(had.Tenants, t) })
	p := &Proposal{From: had.To, To: group, Configs: []*partitionapi.DataPartitionConfig{back, taker}}
	if len(had.Tenants) > 0 {
		listed := back.DeepCopy()
		listed.Tenants = had.Tenants
		p.Configs = append(p.Configs, listed)
	}
	after := slices.Clone(configs)
	for _, c := range p.Configs {
		after[slices.IndexFunc(after, func(o partitionapi.DataPartitionConfig) bool { return o.Name == c.Name })] = *c
	}
	for _, g := range Groups(after, loads) {
		if g.ID == group {
			p.Load, p.Tenants = g.Load, append(slices.Clone(g.ranged), had.Tenants...)
		}
	}
	slices.Sort(p.Tenants)
	return p, nil
}

func value(s *string) (text string, valid bool) {
	if s == nil {
		return "", false
	}
	return *s, true
}
