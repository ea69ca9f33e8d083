package upstream

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/tests/measure"
)

// picture is what is drawn of a benchmark: quantities, as they are or, if
// relative, as ratios to upstream.
type picture struct {
	title, unit string
	quantities  []string
	relative    bool
}

// pictures are those of the benchmarks.
func pictures() map[string]picture {
	return map[string]picture{
		"start": {title: "From the start of the programs", unit: "seconds", quantities: []string{
			"empty: API ready", "empty: node ready", "empty: takes pods", "existing: API ready",
			"existing: node ready", "existing: takes pods",
		}},
		"idle": {title: "Memory of all programs of an idle server with its node", unit: "MiB", quantities: []string{
			"idle: RSS, MiB", "idle: PSS, MiB", "idle: own pages, MiB",
		}},
		"api": {
			title: "The API with 64 clients, relative to " + compared()[0] +
				": medians of the rounds' ratios, lines: 95 % confidence", unit: "ratio", relative: true,
			quantities: []string{
				"get: throughput, 1/s", "list: throughput, 1/s", "create: throughput, 1/s", "watch: throughput, 1/s",
				"get: p50, ms", "list: p50, ms", "create: p50, ms", "watch: p50, ms",
				"get: p99, ms", "list: p99, ms", "create: p99, ms", "watch: p99, ms",
			},
		},
		"pods": {
			title: "A pod", unit: "seconds",
			quantities: []string{"created to ready, s", "slowest of its turn, s", "deleted to gone, s"},
		},
	}
}

// keep adds a round to those of earlier runs, and reports and draws all.
func keep(b *testing.B, name string, round measure.Round) {
	b.Helper()
	rounds, err := measure.Append(filepath.Join(env.out, name+".json"), round)
	if err != nil {
		b.Fatal(err)
	}
	if err := render(rounds, filepath.Join(env.out, name), pictures()[name]); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d rounds\n%s", len(rounds), table(rounds))
}

// render writes the table and the chart of rounds.
func render(rounds measure.Rounds, path string, drawn picture) error {
	if err := os.WriteFile(path+".md", []byte(table(rounds)), 0o644); err != nil {
		return err
	}
	f, err := os.Create(path + ".svg")
	if err != nil {
		return err
	}
	return errors.Join(drawn.chart(rounds).SVG(f), f.Close())
}

func (p picture) chart(rounds measure.Rounds) measure.Chart {
	c := measure.Chart{Title: p.title, Unit: p.unit}
	if p.relative {
		c.Line = 1
	}
	for _, quantity := range p.quantities {
		name, _, _ := strings.Cut(quantity, ",") // without the unit
		g := measure.Group{Name: name}
		for _, side := range []string{
			sideA4s, sidePlain, sideUpstream, sideAtOnce, sideAgain, sideBase, sideBaseAgain,
		} {
			e := rounds.Of(quantity, side)
			if p.relative {
				e = rounds.Ratio(quantity, side, compared()[0])
			}
			if math.IsNaN(e.Median) || p.relative && side == compared()[0] {
				continue
			}
			g.Bars = append(g.Bars, measure.Bar{Name: side, Estimate: e})
		}
		c.Groups = append(c.Groups, g)
	}
	return c
}

// table is what was measured, a line for each quantity.
func table(rounds measure.Rounds) string {
	quantities, sides := map[string]bool{}, map[string]bool{}
	for _, r := range rounds {
		for quantity, values := range r {
			quantities[quantity] = true
			for side := range values {
				sides[side] = true
			}
		}
	}
	first := compared()[0]
	delete(sides, first)
	return rounds.Table(slices.Sorted(maps.Keys(quantities)),
		append([]string{first}, slices.Sorted(maps.Keys(sides))...))
}
