package tenancy

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// side is one of those that are compared.
type side struct {
	name   string
	server *child
	config *rest.Config
	http   *http.Client
	serial atomic.Int64 // of names
	rounds []round
	// things are what it is asked for.
	things things
}

// round is what was measured of a side in one of its turns.
type round struct {
	rate float64 // operations a second
	cpu  float64 // seconds of the server's processor time for one of them
}

// compare lets the sides work in turns, and every round begins with another.
func compare(b *testing.B, sides []*side, name string, do func(context.Context, *side) (int, error)) {
	for _, s := range sides { // warm up
		if _, err := do(b.Context(), s); err != nil {
			b.Fatalf("%s: %v", s.name, err)
		}
		s.rounds = nil
	}
	measure := func() {
		for first := 0; b.Loop(); first++ {
			for i := range sides {
				s := sides[(first+i)%len(sides)]
				if err := s.turn(b, do); err != nil {
					b.Fatalf("%s: %v", s.name, err)
				}
			}
		}
	}
	for _, s := range sides {
		inner := measure
		measure = func() { s.server.profiled(b, s.name+"-"+name, inner) }
	}
	measure()
	b.ReportMetric(0, "ns/op") // a round of all sides means nothing
	base := sides[0]
	for _, s := range sides {
		b.ReportMetric(middle(s.rounds, func(r round, _ int) float64 { return r.rate }).median, s.name+"/s")
		if s == base {
			continue
		}
		rate := middle(s.rounds, func(r round, i int) float64 { return r.rate / base.rounds[i].rate })
		cpu := middle(s.rounds, func(r round, i int) float64 { return r.cpu / base.rounds[i].cpu })
		b.ReportMetric(rate.median, s.name+"-ratio")
		b.ReportMetric(cpu.median, s.name+"-cpu-ratio")
		b.Logf("%-8s throughput %.2f (%.2f to %.2f)  processor %.2f (%.2f to %.2f)", s.name, rate.median, rate.low,
			rate.high, cpu.median, cpu.low, cpu.high)
	}
}

func (s *side) turn(b *testing.B, do func(context.Context, *side) (int, error)) error {
	before, _, _ := s.server.command(b, "usage")
	began := time.Now()
	n, err := do(b.Context(), s)
	if err != nil {
		return err
	}
	took := time.Since(began)
	after, _, _ := s.server.command(b, "usage")
	s.rounds = append(s.rounds, round{rate: float64(n) / took.Seconds(), cpu: (after - before).Seconds() / float64(n)})
	return nil
}

// estimate is a median and where it lies with a confidence of at least 95 %,
// or within all values if they are too few for that.
type estimate struct{ low, median, high float64 }

func middle(rounds []round, value func(r round, i int) float64) estimate {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = value(r, i)
	}
	slices.Sort(values)
	n := len(values)
	// Each value is above the median or below it like the toss of a coin: as
	// many are left out at either end as would be on one side in less than
	// 2.5 % of all cases.
	out, chance, tail := 0, 1.0, 0.0
	for range n {
		chance /= 2
	}
	for k := 0; k < n/2; k++ {
		if tail += chance; tail > 0.025 {
			break
		}
		out = k
		chance = chance * float64(n-k) / float64(k+1)
	}
	return estimate{low: values[out], median: (values[(n-1)/2] + values[n/2]) / 2, high: values[n-1-out]}
}

// TestMiddle: of ten values the second and the ninth bound the median with a
// confidence of 97.9 %, of five none do.
func TestMiddle(t *testing.T) {
	for _, c := range []struct {
		n    int
		want estimate
	}{{1, estimate{0, 0, 0}}, {5, estimate{0, 2, 4}}, {10, estimate{1, 4.5, 8}}, {25, estimate{7, 12, 17}}} {
		rounds := make([]round, c.n)
		for i := range rounds {
			rounds[i].rate = float64((i*7 + 3) % c.n)
		}
		if c.n%7 == 0 {
			t.Fatal("7 must not divide the number of values")
		}
		if got := middle(rounds, func(r round, _ int) float64 { return r.rate }); got != c.want {
			t.Errorf("%d values: %v, want %v", c.n, got, c.want)
		}
	}
}
