package upstream

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/tests/measure"
)

const (
	// settle is how long sides are left alone before they are weighed: a4s
	// gives memory back after an idle minute that follows a busy one.
	settle = 150 * time.Second
	// weighings are taken over a minute.
	weighings, between = 7, 10 * time.Second
)

// BenchmarkIdle weighs sides that have nothing to do: control plane and node
// without a pod, all sides at the same time.
func BenchmarkIdle(b *testing.B) {
	for b.Loop() {
		round := measure.Round{}
		var all []*cluster
		for _, side := range compared(sideA4s, sidePlain) {
			c := newCluster(b, side)
			c.Start()
			c.awaitNode(b, time.Time{})
			all = append(all, c)
		}
		time.Sleep(settle) // what is measured is doing nothing
		weigh(b, round, "idle", all)
		for _, c := range all {
			c.Close()
		}
		keep(b, "idle", round)
	}
}

// weigh sets the memory of all programs of sides, the median of several
// looks, and their processor time meanwhile.
func weigh(b *testing.B, round measure.Round, what string, all []*cluster) {
	b.Helper()
	values := map[string]map[string][]float64{}
	used := map[*cluster]time.Duration{}
	began := time.Now()
	for i := range weighings {
		if i > 0 {
			time.Sleep(between)
		}
		for _, c := range all {
			programs, err := c.Programs()
			if err != nil {
				b.Fatal(err)
			}
			sums := map[string]float64{}
			cpu := time.Duration(0)
			for _, p := range programs {
				sums["RSS, MiB"] += p.RSS
				sums["PSS, MiB"] += p.PSS
				sums["own pages, MiB"] += p.Anon
				sums["PSS of "+p.Name+", MiB"] += p.PSS
				cpu += p.CPU
			}
			if i == 0 {
				used[c] = cpu
			}
			sums["processor, % of one"] = 100 * (cpu - used[c]).Seconds() / time.Since(began).Seconds()
			for quantity, v := range sums {
				if values[quantity] == nil {
					values[quantity] = map[string][]float64{}
				}
				values[quantity][c.name] = append(values[quantity][c.name], v)
			}
		}
	}
	for quantity, sides := range values {
		for side, v := range sides {
			if strings.HasPrefix(quantity, "processor") {
				round.Set(what+": "+quantity, side, v[len(v)-1])
				continue
			}
			slices.Sort(v)
			round.Set(what+": "+quantity, side, measure.Quantile(v, 0.5))
		}
	}
}

// cpu is the processor time of all processes of the side.
func (c *cluster) cpu(b *testing.B) time.Duration {
	b.Helper()
	used, err := c.CPU()
	if err != nil {
		b.Fatal(err)
	}
	return used
}
