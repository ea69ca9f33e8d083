package groupwatch

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// Name is the name of the component that follows the configurations.
const Name = "service-groups"

// Servers are those of the cluster.
type Servers interface {
	// Group is where servers of a group are now, each "host:port"; none if the one that a
	// client reaches anyway will do.
	Group(id string) []string
}

// Groups knows which group owns which tenant since when.
type Groups struct {
	servers Servers
	log     *logrus.Entry
	// known ends when the configurations are known. Until then watches are asked of one
	// server, once they have waited if the configurations are expected.
	known    context.Context
	know     context.CancelFunc
	expected atomic.Bool
	// spread is how long it takes until all of those watches have ended after that.
	spread time.Duration
	faults faults

	// mu is taken under memory.mu, when a watch begins; no other lock is taken under it.
	mu sync.Mutex
	// tables are who owned what. A watch from before the oldest one gets 410.
	tables  ownership.History[since]
	changed chan struct{}
}

// since is who owns what from a revision on.
type since struct {
	at    int64
	table *ownership.Table
	// streams are those that have all events together.
	streams []string
}

// Since implements ownership.Dated.
func (s since) Since() int64 { return s.at }

// New makes a Groups that knows nothing yet, and whose clients wait until it does.
func New(servers Servers, log *logrus.Entry) *Groups {
	g := Later(servers, log)
	g.Expect(true)
	return g
}

// Later makes a Groups for a cluster that may get service groups one day. Its clients ask one
// server for everything, until its Component knows who owns what.
func Later(servers Servers, log *logrus.Entry) *Groups {
	g := &Groups{servers: servers, log: log, changed: make(chan struct{}), spread: spread}
	g.known, g.know = context.WithCancel(context.Background())
	return g
}

// Expect says whether the Component is about to start. Clients wait for it for a moment.
func (g *Groups) Expect(starts bool) { g.expected.Store(starts) }

// Component follows the configurations. It is ready when it knows them.
func (g *Groups) Component(client *partitionapi.Client) component.Component {
	return component.Component{Name: Name, Run: func(ctx context.Context, ready func()) error {
		go func() {
			select {
			case <-g.known.Done():
				ready()
			case <-ctx.Done():
			}
		}()
		g.follow(ctx, client)
		return nil
	}}
}

// set is told of the configurations as of a revision. Those between it and the one before
// are unknown if it is a list that says so: watches from before have to begin anew.
func (g *Groups) set(all []ownership.Config, at int64, listed bool) {
	t := since{at: at, table: ownership.NewTable(all), streams: streamsOf(all)}
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _, known := g.tables.Ends()
	if listed {
		g.tables.Begin(t)
	} else {
		g.tables.Add(t)
	}
	close(g.changed)
	g.changed = make(chan struct{})
	if !known {
		g.know()
	}
}

// streamsOf are the groups that may own a tenant, in order, and the rest. Servers judge
// who owns it; a stream without events does no harm.
func streamsOf(all []ownership.Config) []string {
	var groups []string
	for _, c := range all {
		if !c.Span.Empty() || len(c.Tenants) > 0 {
			groups = append(groups, c.Group)
		}
	}
	slices.Sort(groups)
	return append(slices.Compact(groups), partitionapi.Rest)
}

// wait waits until the configurations are known, if they are expected. It returns false if
// they are not in time.
func (g *Groups) wait(ctx context.Context, limit time.Duration) bool {
	if g.known.Err() != nil || !g.expected.Load() {
		return g.known.Err() != nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-g.known.Done():
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// reads reports whether lists are made of streams: servers of groups know what there is,
// so nothing else has to be known.
func (g *Groups) reads() bool { return g.known.Err() != nil || g.expected.Load() }

// owner is the group that owns a tenant now, "" for none.
func (g *Groups) owner(tenant string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, last, ok := g.tables.Ends()
	if !ok {
		return ""
	}
	group, _ := last.table.Owner(tenant)
	return group
}

// oldest is the revision from which on it is known who owned what, 0 if it is not known yet.
func (g *Groups) oldest() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	oldest, _, _ := g.tables.Ends()
	return oldest.at
}

// from are who owned what after a revision, with the table in force at it first. It is
// false if that is not known.
func (g *Groups) from(rev int64) ([]since, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tables.From(rev)
}

// after are the changes after a revision, and what is closed at the next one. It is false
// if some may be missing.
func (g *Groups) after(rev int64) ([]since, <-chan struct{}, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all, ok := g.tables.After(rev)
	return all, g.changed, ok
}
