package main

import (
	"context"
	"fmt"
	"math"

	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/measure"
)

// sizeName is the side of results with so many nodes.
func sizeName(nodes int) string { return fmt.Sprintf("%d nodes", nodes) }

// growing weighs a TP and an RP by the number of nodes.
func (t *trial) growing() []phase {
	all := []phase{{"start", t.start}, {"empty", func(ctx context.Context) error { return t.size(ctx, 0) }}}
	for _, n := range t.growth {
		all = append(all,
			phase{fmt.Sprint(n, " nodes come"), func(ctx context.Context) error { return t.addNodes(ctx, n) }},
			phase{"they are weighed", func(ctx context.Context) error { return t.size(ctx, n) }})
	}
	return all
}

// size measures both when there are so many nodes.
func (t *trial) size(ctx context.Context, nodes int) error {
	if err := sides.Sleep(ctx, t.settle); err != nil {
		return err
	}
	cores, err := sides.CoresDuring(ctx, t.idle/2, t.tps[0].Side, t.rps[0].Side)
	if err != nil {
		return err
	}
	t.side = sizeName(nodes)
	t.set(tpIdle, cores[0])
	t.set(rpIdle, cores[1])
	return t.weigh(ctx)
}

// growthQuantities are those of a size.
func growthQuantities() []string {
	return []string{tpResident, tpPSS, tpLive, tpIdle, rpResident, rpPSS, rpLive, rpIdle}
}

// growthTable is what was measured by the number of nodes, and what each further node adds.
func growthTable(r measure.Rounds, sizes []int) string {
	text := "| |"
	var names []string
	for _, n := range append([]int{0}, sizes...) {
		names = append(names, sizeName(n))
		text += fmt.Sprintf(" %s |", sizeName(n))
	}
	text += " each further node |\n|---|"
	for range names {
		text += "---|"
	}
	text += "---|\n"
	for _, q := range growthQuantities() {
		text += fmt.Sprintf("| %s |", q)
		for _, name := range names {
			text += fmt.Sprintf(" %s |", measure.Number(r.Of(q, name).Median))
		}
		text += fmt.Sprintf(" %s |\n", perNode(r, q, sizes))
	}
	return text + "\n"
}

// perNode is what a node adds, between the fewest and the most nodes.
func perNode(r measure.Rounds, quantity string, sizes []int) string {
	few, many := sizes[0], sizes[len(sizes)-1]
	each := (r.Of(quantity, sizeName(many)).Median - r.Of(quantity, sizeName(few)).Median) / float64(many-few)
	switch {
	case math.IsNaN(each) || math.IsInf(each, 0):
		return ""
	case quantity == tpIdle || quantity == rpIdle:
		return fmt.Sprintf("%.3g ms/s", each*1000)
	}
	return fmt.Sprintf("%.3g KiB", each*1024)
}

// memoryChart is the memory by the number of nodes.
func memoryChart(r measure.Rounds, sizes []int) measure.Chart {
	c := measure.Chart{Title: "Memory by nodes of the whole cluster: 1 TP, 1 RP", Unit: "MiB"}
	for _, n := range append([]int{0}, sizes...) {
		g := measure.Group{Name: sizeName(n)}
		for _, b := range []struct{ name, quantity string }{
			{"TP, resident", tpResident}, {"TP, live heap", tpLive},
			{"RP, resident", rpResident}, {"RP, live heap", rpLive},
		} {
			g.Bars = append(g.Bars, measure.Bar{Name: b.name, Estimate: r.Of(b.quantity, sizeName(n))})
		}
		c.Groups = append(c.Groups, g)
	}
	return c
}
