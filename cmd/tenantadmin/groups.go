package tenantadmin

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/cluster/servers"
	"github.com/a4s-io/a4s/server/partition/balance"
)

// Group is a service group with what it owns and its servers.
type Group struct {
	ID      string   `json:"id"`
	Config  string   `json:"config,omitempty"`
	Range   string   `json:"range"`
	Listed  []string `json:"listed,omitempty"`
	Tenants int      `json:"tenants"`
	Objects int64    `json:"objects"`
	Servers []string `json:"servers"`
	Ready   int      `json:"ready"`
}

// groupsOf are the groups that have a configuration, then those that have only servers,
// which cache all tenants.
func groupsOf(groups []balance.Group, all []servers.Server) []Group {
	rows := []Group{}
	known := map[string]bool{}
	for _, g := range groups {
		row := Group{ID: g.ID, Tenants: g.Tenants, Objects: g.Load, Range: "not owned"}
		if g.Config != nil {
			row.Config, row.Range, row.Listed = g.Config.Name, rangeText(g.Config), g.Config.Tenants
		}
		known[g.ID] = true
		rows = append(rows, row)
	}
	for _, s := range all {
		if !known[s.Group] {
			known[s.Group] = true
			rows = append(rows, Group{ID: s.Group, Range: "all"})
		}
	}
	for _, s := range all {
		row := &rows[slices.IndexFunc(rows, func(r Group) bool { return r.ID == s.Group })]
		row.Servers = append(row.Servers, s.Name)
		if s.Ready {
			row.Ready++
		}
	}
	return rows
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

// WriteGroups prints groups as a table.
func WriteGroups(out io.Writer, rows []Group) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(out, "There are no service groups: no server has --service-group-id.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "GROUP\tRANGE\tLISTED\tTENANTS\tOBJECTS\tREADY\tSERVERS\tCONFIG")
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d/%d\t%s\t%s\n", dash(r.ID), r.Range, dash(strings.Join(r.Listed, ",")),
			r.Tenants, r.Objects, r.Ready, len(r.Servers), dash(strings.Join(r.Servers, ",")), dash(r.Config))
	}
	return w.Flush()
}

// Groups are the service groups of the cluster.
func (a *Admin) Groups(ctx context.Context) ([]Group, error) {
	configs, loads, _, err := a.readGroups(ctx)
	if err != nil {
		return nil, err
	}
	leases, err := a.kube.CoordinationV1().Leases(metav1.NamespaceSystem).List(ctx,
		metav1.ListOptions{LabelSelector: servers.GroupLabel})
	if err != nil {
		return nil, fmt.Errorf("reading which servers there are: %w", err)
	}
	var all []servers.Server
	for i := range leases.Items {
		if s, ok := servers.Read(&leases.Items[i]); ok {
			all = append(all, s)
		}
	}
	return groupsOf(balance.Groups(configs, loads), all), nil
}

func (a *Admin) readGroups(
	ctx context.Context,
) ([]partitionapi.DataPartitionConfig, balance.Loads, *balance.Store, error) {
	client, err := partitionapi.NewClient(a.cfg, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	store := &balance.Store{Configs: client, Tenants: a.tenants}
	configs, loads, err := store.Read(ctx)
	return configs, loads, store, err
}

// Move is what moves tenants from one service group to another; it may be nothing.
type Move struct{ proposal *balance.Proposal }

// SuggestMove says which tenants to move so that two neighbours have about the same.
func (a *Admin) SuggestMove(ctx context.Context) (*Move, error) {
	configs, loads, _, err := a.readGroups(ctx)
	if err != nil {
		return nil, err
	}
	return &Move{balance.Suggest(configs, loads)}, nil
}

// ApplyMove does what SuggestMove says.
func (a *Admin) ApplyMove(ctx context.Context) (*Move, error) {
	configs, loads, store, err := a.readGroups(ctx)
	if err != nil {
		return nil, err
	}
	m := &Move{balance.Suggest(configs, loads)}
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

// Drain gives all that a group owns to a neighbour. Why it cannot be is a *DrainError.
func (a *Admin) Drain(ctx context.Context, group string) (*Move, error) {
	configs, loads, store, err := a.readGroups(ctx)
	if err != nil {
		return nil, err
	}
	p, err := balance.Drain(configs, loads, group)
	if err != nil {
		return nil, &DrainError{err}
	}
	return &Move{p}, store.Apply(ctx, p)
}

// Write says what moves and how the ranges are then.
func (m *Move) Write(out io.Writer, verb string) error {
	p := m.proposal
	if p == nil {
		_, err := fmt.Fprintln(out, "The groups are balanced, or no boundary between two tenants helps.")
		return err
	}
	fmt.Fprintf(out, "%d tenants with %d objects %s from service group %s to %s: %s\n", len(p.Tenants), p.Load, verb,
		p.From, p.To, strings.Join(p.Tenants, ", "))
	for _, c := range p.Configs {
		_, err := fmt.Fprintf(out, "%s: service group %s, %s\n", c.Name, c.ServiceGroupID, rangeText(c))
		if err != nil {
			return err
		}
	}
	return nil
}
