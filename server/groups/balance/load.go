package balance

import (
	"fmt"
	"math"

	"github.com/a4s-io/a4s/server/groups/load"
)

// Load is what one tenant, or those of a group, put on the servers.
type Load struct {
	// Objects are in its space.
	Objects int64
	load.Rate
}

// Add adds another load.
func (l *Load) Add(o Load) {
	l.Objects += o.Objects
	l.Rate.Add(o.Rate)
}

// String is the load for people.
func (l Load) String() string {
	return fmt.Sprintf("%d objects, %.1f writes/s and %.1f kB/s to watches", l.Objects, l.Writes, l.WatchBytes/1000)
}

// Loads are those of all tenants.
type Loads map[string]Load

const (
	// whole is the weight of everything that the cluster has of one kind of load. Weights
	// are integers, so that sums do not depend on the order.
	whole = 1_000_000_000
	// Of a cluster that has less in a second than these, writes and watches weigh less
	// than objects do: what a few requests cost moves nobody.
	muchWrites, muchBytes = 10, 100_000
)

// weights are how heavy each tenant is: its part of the cluster's objects, of its writes
// and of what is sent to watches, which count alike.
func (l Loads) weights() map[string]int64 {
	var all Load
	for _, t := range l {
		all.Add(t)
	}
	part := func(some, of float64) int64 { return int64(math.Round(some / of * whole)) }
	weights := make(map[string]int64, len(l))
	for name, t := range l {
		weights[name] = part(float64(t.Objects), max(float64(all.Objects), 1)) +
			part(t.Writes, max(all.Writes, muchWrites)) + part(t.WatchBytes, max(all.WatchBytes, muchBytes))
	}
	return weights
}
