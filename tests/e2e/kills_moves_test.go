package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/groups/balance"
	"github.com/a4s-io/a4s/tests/hosts"
)

// mover moves tenants between the service groups 0 and 1, as a4s groups does.
type mover struct {
	servers []*cluster
	random  *rand.Rand

	moving sync.Mutex // held for a move

	mu      sync.Mutex
	failure error
	// moves are those that were stored, resumed those of them that went on with what was
	// interrupted, interrupted those of which a part was stored when a server was killed.
	moves, resumed, interrupted int
}

// newMover gives each group a range, and group 1 a tenant of that of the other one besides, so
// that to drain it takes three writes.
func newMover(t *testing.T, seed int, zero, one *cluster) *mover {
	t.Helper()
	client, err := partitionapi.NewClient(zero.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*partitionapi.DataPartitionConfig{
		{ObjectMeta: metav1.ObjectMeta{Name: "group-0"}, ServiceGroupID: "0", RangeEnd: "m",
			IsRangeEndValid: true},
		{ObjectMeta: metav1.ObjectMeta{Name: "group-1"}, ServiceGroupID: "1", RangeStart: "m",
			IsRangeStartValid: true, Tenants: []string{"bravo"}},
	} {
		if _, err := client.Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return &mover{servers: []*cluster{zero, one}, random: rand.New(rand.NewPCG(uint64(seed), 0))}
}

// move has tenants moved back and forth.
func (k *killing) move(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var moving sync.WaitGroup
	k.stopMoves = func() {
		stop()
		moving.Wait()
	}
	t.Cleanup(k.stopMoves)
	moving.Go(func() {
		for ctx.Err() == nil {
			pause := k.moves.one(ctx)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	})
}

// one moves tenants once, or goes on with what was interrupted, through one of the servers. It
// returns for how long to do nothing then.
func (m *mover) one(ctx context.Context) time.Duration {
	m.moving.Lock()
	defer m.moving.Unlock()
	err := func() error {
		store, err := balance.NewStore(m.servers[m.random.IntN(len(m.servers))].config, nil)
		if err != nil {
			return err
		}
		state, err := store.Read(ctx)
		if err != nil {
			return err
		}
		p, err := m.next(state)
		if err != nil {
			return err
		}
		if err := store.Apply(ctx, p); err != nil {
			return err
		}
		m.note(func() {
			if m.moves++; p.Interrupted {
				m.resumed++
			}
		})
		return nil
	}()
	m.note(func() { m.failure = err })
	return time.Duration(m.random.Int64N(int64(500 * time.Millisecond)))
}

// next is what to move.
func (m *mover) next(state *balance.State) (*balance.Proposal, error) {
	if p := balance.Interrupted(state.Configs); p != nil {
		return p, nil
	}
	if p, err := state.Undrain("1"); err == nil {
		return p, nil
	}
	if m.random.IntN(4) == 0 {
		return state.Drain("1")
	}
	of := func(group string) *partitionapi.DataPartitionConfig {
		i := slices.IndexFunc(state.Configs, func(c partitionapi.DataPartitionConfig) bool {
			return c.ServiceGroupID == group
		})
		return state.Configs[i].DeepCopy()
	}
	left, right := of("0"), of("1")
	bounds := slices.DeleteFunc([]string{"b", "m", "t", "zz"}, func(b string) bool { return b == left.RangeEnd })
	p := &balance.Proposal{From: "0", To: "1", Configs: []*partitionapi.DataPartitionConfig{right, left}}
	bound := bounds[m.random.IntN(len(bounds))]
	if bound > left.RangeEnd { // what grows comes first
		p = &balance.Proposal{From: "1", To: "0", Configs: []*partitionapi.DataPartitionConfig{left, right}}
	}
	left.RangeEnd, right.RangeStart = bound, bound
	return p, nil
}

func (m *mover) note(what func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	what()
}

func (m *mover) count() (n int) {
	m.note(func() { n = m.moves })
	return n
}

func (m *mover) lastError() (err error) {
	m.note(func() { err = m.failure })
	return err
}

// killsAfter ends a server when some configurations are stored.
type killsAfter struct {
	balance.Configs
	left int
	kill func()
}

// Update implements balance.Configs.
func (k *killsAfter) Update(
	ctx context.Context, c *partitionapi.DataPartitionConfig, options metav1.UpdateOptions,
) (*partitionapi.DataPartitionConfig, error) {
	out, err := k.Configs.Update(ctx, c, options)
	if k.left--; err == nil && k.left == 0 {
		k.kill()
	}
	return out, err
}

// interrupt kills a server when a part of a move that goes through it is stored. The rest is
// known through the other one, where the command goes on with it, or whoever moves next.
func (m *mover) interrupt(t *testing.T, victim *cluster) {
	t.Helper()
	m.moving.Lock()
	defer m.moving.Unlock()
	hosts.Until(t, soon, "a move is interrupted", func(ctx context.Context) error {
		store, err := balance.NewStore(victim.config, nil)
		if err != nil {
			return err
		}
		state, err := store.Read(ctx)
		if err != nil {
			return err
		}
		p, err := m.next(state)
		if err != nil {
			return err
		}
		if len(p.Configs) == 1 { // the rest of an earlier one, whose last write is not interrupted
			return errors.Join(store.Apply(ctx, p), errors.New("another move was interrupted"))
		}
		store.Configs = &killsAfter{store.Configs, 1 + m.random.IntN(len(p.Configs)-1), victim.proc.Kill}
		if err := store.Apply(ctx, p); victim.proc.Running() {
			return fmt.Errorf("the server was not killed: %w", err)
		} else if err == nil {
			t.Fatal("a move was stored whose server was killed meanwhile")
		}
		return nil
	})
	other := m.servers[0]
	if other == victim {
		other = m.servers[1]
	}
	if balance.Interrupted(m.read(t, other).Configs) == nil {
		t.Fatal("nobody knows how a move goes on that was interrupted")
	}
	m.note(func() { m.interrupted++ })
	if m.random.IntN(2) == 0 {
		if out := other.must(t, "groups", "apply"); !strings.Contains(out, "interrupted") {
			t.Errorf("it does not say that it goes on with a move: %s", out)
		}
		if balance.Interrupted(m.read(t, other).Configs) != nil {
			t.Error("a4s groups apply does not go on with a move")
		}
	}
}

// read returns the ranges as a server shows them.
func (m *mover) read(t *testing.T, c *cluster) (state *balance.State) {
	t.Helper()
	hosts.Until(t, soon, "the ranges are read", func(ctx context.Context) error {
		store, err := balance.NewStore(c.config, nil)
		if err != nil {
			return err
		}
		state, err = store.Read(ctx)
		return err
	})
	return state
}

// settled goes on with what was interrupted last, and expects one owner for each tenant, who
// has it.
func (m *mover) settled(t *testing.T) {
	t.Helper()
	zero := m.servers[0]
	zero.must(t, "groups", "apply")
	state := m.read(t, zero)
	if balance.Interrupted(state.Configs) != nil {
		t.Error("a move is not finished")
	}
	var configs []ownership.Config
	for i := range state.Configs {
		configs = append(configs, ownership.NewConfig(&state.Configs[i], state.Configs[i].CreationTimestamp.Unix()))
	}
	table := ownership.NewTable(configs)
	if pairs, gaps := ownership.Overlaps(configs), table.Gaps(); len(pairs)+len(gaps) > 0 {
		t.Errorf("ranges overlap (%v), or nobody has them (%v): %+v", pairs, gaps, state.Configs)
	}
	if !slices.ContainsFunc(configs, func(c ownership.Config) bool { return slices.Contains(c.Tenants, "bravo") }) {
		t.Errorf("nobody lists the tenant that was listed: %+v", state.Configs)
	}
	of := map[string][]string{}
	for _, tenant := range tenantsToKill["main"] {
		owner, _ := table.Owner(tenant)
		of[owner] = append(of[owner], tenant)
	}
	for i, c := range m.servers {
		group := fmt.Sprint(i)
		c.waitTenants(t, c.informer(t, group), of[group]...)
	}
	m.note(func() {
		t.Logf("%d moves, %d of them the rest of one that was interrupted; %d were interrupted between two writes",
			m.moves, m.resumed, m.interrupted)
	})
}
