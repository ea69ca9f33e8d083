package overview

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// within bounds an answer.
const within = 2500 * time.Millisecond

// Options are what is known of the partitions.
type Options struct {
	Partitions func() []*partitionapi.Partition
	Placements func() []*partitionapi.TenantPlacement
	// Ping asks a server what time it has.
	Ping func(ctx context.Context, address string) (time.Time, error)
	// Nodes counts the nodes of partitions, as far as that is known when its context ends.
	Nodes func(context.Context) map[string]int
}

// Overview remembers who has answered.
type Overview struct {
	o Options

	mu   sync.Mutex
	seen map[string]time.Time // by the address of a server
}

// New makes one.
func New(o Options) *Overview { return &Overview{o: o, seen: map[string]time.Time{}} }

// Ping asks a server what time it has, and remembers that it answered.
func (v *Overview) Ping(ctx context.Context, address string) (time.Time, error) {
	at, err := v.o.Ping(ctx, address)
	if err == nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.seen[address] = time.Now()
	}
	return at, err
}

// States are the partitions of the cluster, by their names; none of one that has only the
// first.
func (v *Overview) States(ctx context.Context) []joinapi.PartitionState {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	all, out := v.o.Partitions(), []joinapi.PartitionState{}
	if len(all) == 0 {
		return out
	}
	var nodes map[string]int
	var counting sync.WaitGroup
	counting.Go(func() { nodes = v.o.Nodes(ctx) })
	answers := v.ask(ctx, all)
	counting.Wait()
	tenants := map[string]int{}
	for _, p := range v.o.Placements() {
		tenants[p.Spec.Partition]++
	}
	for _, p := range all {
		one := v.state(p, answers)
		one.Tenants = tenants[p.Name]
		if n, known := nodes[p.Name]; known || !p.Has(partitionapi.RoleResource) {
			one.Nodes = &n
		}
		out = append(out, one)
	}
	return out
}

// ask finds out which servers answer, by their addresses.
func (v *Overview) ask(ctx context.Context, all []*partitionapi.Partition) map[string]bool {
	var asking sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]bool{}
	for _, p := range all {
		for _, s := range p.Spec.Servers {
			asking.Go(func() {
				_, err := v.Ping(ctx, s.Address)
				mu.Lock()
				defer mu.Unlock()
				answers[s.Address] = err == nil
			})
		}
	}
	asking.Wait()
	return answers
}

func (v *Overview) state(p *partitionapi.Partition, answers map[string]bool) joinapi.PartitionState {
	one := joinapi.PartitionState{Name: p.Name, State: joinapi.PartitionAway, ServiceCIDR: p.Spec.ServiceCIDR,
		ClusterCIDR: p.Spec.ClusterCIDR, Servers: []string{}}
	for _, role := range p.Spec.Roles {
		one.Roles = append(one.Roles, string(role))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range p.Spec.Servers {
		text := fmt.Sprintf("%s (%s)", s.Name, s.Address)
		one.Servers = append(one.Servers, text)
		if !answers[s.Address] {
			one.Silent = append(one.Silent, text)
		}
		if at, ok := v.seen[s.Address]; ok && (one.LastSeen == nil || at.After(*one.LastSeen)) {
			one.LastSeen = &at
		}
	}
	switch {
	case len(one.Silent) == len(one.Servers):
	case len(one.Silent) > 0:
		one.State = joinapi.PartitionPartly
	default:
		one.State = joinapi.PartitionReady
	}
	return one
}
