package tenantadmin

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/servers"
	"github.com/a4s-io/a4s/server/groups/balance"
)

// Groups are the service groups of the cluster with what they own, and its servers.
type Groups struct {
	// Revision is that of the newest configuration.
	Revision int64    `json:"revision"`
	Groups   []Group  `json:"groups"`
	Servers  []Server `json:"servers"`
}

// Group is a service group with what it owns.
type Group struct {
	ID      string   `json:"id"`
	Config  string   `json:"config,omitempty"`
	Range   string   `json:"range"`
	Listed  []string `json:"listed,omitempty"`
	Tenants int      `json:"tenants"`
	Objects int64    `json:"objects"`
	// Writes and WatchBytes are those of a second.
	Writes     float64 `json:"writes"`
	WatchBytes float64 `json:"watchBytes"`
	// Share is its part of the load of all groups, from 0 to 1.
	Share   float64 `json:"share"`
	Servers int     `json:"servers"`
	Ready   int     `json:"ready"`
}

// Server is one with what it has applied.
type Server struct {
	Name    string `json:"name"`
	Group   string `json:"group"`
	Address string `json:"address"`
	Ready   bool   `json:"ready"`
	// Applied is the revision of the newest change of configurations that its caches
	// have met, nil for a server that is of no group and holds all tenants.
	Applied *int64 `json:"applied,omitempty"`
}

// groupsOf are the groups that have a configuration, then those that have only servers,
// which cache all tenants.
func groupsOf(state *balance.State) *Groups {
	out := &Groups{Revision: state.Revision(), Groups: []Group{}, Servers: []Server{}}
	known := map[string]bool{}
	for _, g := range state.Groups() {
		row := Group{ID: g.ID, Tenants: g.Tenants, Objects: g.Load.Objects, Writes: g.Load.Writes,
			WatchBytes: g.Load.WatchBytes, Share: g.Share, Range: "not owned"}
		if g.Config != nil {
			row.Config, row.Range, row.Listed = g.Config.Name, rangeText(g.Config), g.Config.Tenants
		}
		known[g.ID] = true
		out.Groups = append(out.Groups, row)
	}
	for _, s := range state.Servers {
		if !known[s.Group] {
			known[s.Group] = true
			out.Groups = append(out.Groups, Group{ID: s.Group, Range: "all"})
		}
		row := &out.Groups[slices.IndexFunc(out.Groups, func(r Group) bool { return r.ID == s.Group })]
		row.Servers++
		if s.Ready {
			row.Ready++
		}
		server := Server{Name: s.Name, Group: s.Group, Address: s.Address, Ready: s.Ready}
		if s.Applied != servers.NoGroup {
			server.Applied = &s.Applied
		}
		out.Servers = append(out.Servers, server)
	}
	return out
}

// rangeText is a range as a configuration has it.
func rangeText(c *partitionapi.DataPartitionConfig) string {
	start, end := "", ""
	if c.IsRangeStartValid {
		start = c.RangeStart
	}
	if c.IsRangeEndValid {
		end = c.RangeEnd
	}
	if c.IsRangeStartValid && c.IsRangeEndValid && start == end {
		return "none"
	}
	return "[" + start + ", " + end + ")"
}

// Write prints groups and servers as tables.
func (g *Groups) Write(out io.Writer) error {
	if len(g.Groups) == 0 {
		_, err := fmt.Fprintln(out, "There are no service groups: no server has --service-group-id.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "GROUP\tRANGE\tLISTED\tTENANTS\tOBJECTS\tWRITES/S\tWATCH KB/S\tLOAD\tREADY\tCONFIG")
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	for _, r := range g.Groups {
		problem.Show(w, "%s\t%s\t%s\t%d\t%d\t%.1f\t%.1f\t%.0f%%\t%d/%d\t%s\n", dash(r.ID), r.Range,
			dash(strings.Join(r.Listed, ",")), r.Tenants, r.Objects, r.Writes, r.WatchBytes/1000, 100*r.Share,
			r.Ready, r.Servers, dash(r.Config))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nSERVER\tGROUP\tREADY\tADDRESS\tAPPLIED")
	behind := false
	for _, s := range g.Servers {
		ready, applied := "no", "-"
		if s.Ready {
			ready = "yes"
		}
		if s.Applied != nil {
			applied = strconv.FormatInt(*s.Applied, 10)
			if *s.Applied < g.Revision {
				applied += " (behind)"
				behind = behind || s.Ready
			}
		}
		problem.Show(w, "%s\t%s\t%s\t%s\t%s\n", s.Name, dash(s.Group), ready, dash(s.Address), applied)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if g.Revision == 0 {
		return nil
	}
	state := "every server that is ready has applied it"
	if behind {
		state = "some servers have not applied it yet"
	}
	_, err := problem.Show(out, "\nThe newest configuration is of revision %d: %s.\n", g.Revision, state)
	return err
}

// Groups are the service groups of the cluster.
func (a *Admin) Groups(ctx context.Context) (*Groups, error) {
	state, _, err := a.readGroups(ctx)
	if err != nil {
		return nil, err
	}
	return groupsOf(state), nil
}

func (a *Admin) readGroups(ctx context.Context) (*balance.State, *balance.Store, error) {
	store, err := balance.NewStore(a.cfg, nil)
	if err != nil {
		return nil, nil, err
	}
	state, err := store.Read(ctx)
	return state, store, err
}

// Move is what moves tenants from one service group to another; it may be nothing.
type Move struct {
	proposal *balance.Proposal
	// settled is what was interrupted and done before.
	settled *balance.Proposal
	// Stopped says that no server of the group that gets the tenants is ready.
	Stopped bool
}

// SuggestMove says which tenants to move so that two neighbours have about the same.
func (a *Admin) SuggestMove(ctx context.Context) (*Move, error) {
	state, _, err := a.readGroups(ctx)
	if err != nil {
		return nil, err
	}
	return &Move{proposal: state.Suggest()}, nil
}

// ApplyMove does what SuggestMove says.
func (a *Admin) ApplyMove(ctx context.Context) (*Move, error) {
	state, store, err := a.readGroups(ctx)
	if err != nil {
		return nil, err
	}
	m := &Move{proposal: state.Suggest()}
	if m.proposal == nil {
		return m, nil
	}
	return m, store.Apply(ctx, m.proposal)
}

// DrainError says why a group cannot be drained.
type DrainError struct{ Err error }

func (e *DrainError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *DrainError) Unwrap() error { return e.Err }

// Drain gives all that a group owns to a neighbour, or takes that back. Why it cannot be is
// a *DrainError.
func (a *Admin) Drain(ctx context.Context, group string, undo bool) (*Move, error) {
	state, store, err := a.readGroups(ctx)
	if err != nil {
		return nil, err
	}
	state, settled, err := store.Settle(ctx, state)
	if err != nil {
		return nil, err
	}
	propose := state.Drain
	if undo {
		propose = state.Undrain
	}
	p, err := propose(group)
	if err != nil && settled != nil && (undo && settled.To == group || !undo && settled.From == group) {
		return &Move{proposal: settled, Stopped: !state.Runs(settled.To)}, nil // that was it
	}
	if err != nil {
		return nil, &DrainError{err}
	}
	return &Move{proposal: p, settled: settled, Stopped: !state.Runs(p.To)}, store.Apply(ctx, p)
}

// Write says what moves and how the ranges are then.
func (m *Move) Write(out io.Writer, verb string) error {
	p := m.proposal
	if p == nil {
		_, err := fmt.Fprintln(out, "The groups are balanced, no boundary between two tenants helps, "+
			"or the group that has less has no server that is ready.")
		return err
	}
	if m.settled != nil {
		if err := (&Move{proposal: m.settled}).Write(out, verb); err != nil {
			return err
		}
	}
	var err error
	if p.Interrupted {
		_, err = problem.Show(out, "A move from service group %s to %s was interrupted. "+
			"The rest of its tenants %s now:\n", p.From, p.To, verb)
	} else {
		_, err = problem.Show(out, "%d tenants with %s %s from service group %s to %s: %s\n", len(p.Tenants), p.Load,
			verb, p.From, p.To, strings.Join(p.Tenants, ", "))
	}
	if err != nil {
		return err
	}
	if m.Stopped {
		if _, err := problem.Show(out, "No server of service group %s is ready: the servers of other groups answer "+
			"for these tenants, without caches for them.\n", p.To); err != nil {
			return err
		}
	}
	for _, c := range p.Configs {
		_, err := problem.Show(out, "%s: service group %s, %s\n", c.Name, c.ServiceGroupID, rangeText(c))
		if err != nil {
			return err
		}
	}
	return nil
}
