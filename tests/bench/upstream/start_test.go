package upstream

import (
	"slices"
	"testing"
	"time"

	"github.com/a4s-io/a4s/tests/measure"
)

// turns returns the sides in another order every time.
func turns(n int, sides ...string) []string {
	n %= len(sides)
	order := slices.Concat(sides[n:], sides[:n])
	return order
}

// BenchmarkStart measures how long it takes from the start of the programs to
// an API that is ready, a node that is, and one that takes pods: from empty data
// directories, and again with what the first start left. One side runs at a time.
func BenchmarkStart(b *testing.B) {
	n := 0
	for b.Loop() {
		round := measure.Round{}
		for _, side := range turns(n, compared(sideA4s, sidePlain, sideAtOnce)...) {
			c := newCluster(b, side)
			record := func(what string, s started) {
				round.Set(what+": API ready", side, s.api.Seconds())
				round.Set(what+": node ready", side, s.ready.Seconds())
				round.Set(what+": takes pods", side, s.schedulable.Seconds())
				b.Logf("%s, %s: %v", side, what, s)
			}
			c.Start()
			record("empty", c.awaitNode(b, time.Time{}))
			heard := c.heard(b)
			if err := c.Stop(); err != nil {
				b.Fatal(err)
			}
			c.Start()
			record("existing", c.awaitNode(b, heard))
			c.Close()
		}
		n++
		keep(b, "start", round)
	}
}
