package main

import (
	"context"
	"fmt"
	"math"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/tests/measure"
)

// sizeName is the side of results with so many nodes.
func sizeName(nodes int) string { return fmt.Sprintf("%d nodes", nodes) }

// growing measures a TP and an RP by the number of nodes.
func (t *trial) growing() []phase {
	all := []phase{{"start", t.start}, {"tenants", t.populate},
		{"no nodes", func(ctx context.Context) error { return t.size(ctx, 0) }}}
	for _, n := range t.growth {
		all = append(all,
			phase{fmt.Sprint(n, " nodes come"), func(ctx context.Context) error { return t.addNodes(ctx, n) }},
			phase{"they are weighed", func(ctx context.Context) error { return t.size(ctx, n) }},
			phase{"paced load", func(ctx context.Context) error {
				return t.paceSize(ctx, fmt.Sprint("paced-", n), tpCPU)
			}},
			phase{"the same with streams", func(ctx context.Context) error { return t.streams(ctx, n) }})
	}
	return all
}

// paceSize measures a paced load, half as long as others.
func (t *trial) paceSize(ctx context.Context, phase, quantity string) error {
	p, err := t.pace(ctx, phase, t.paced/2)
	if err != nil {
		return err
	}
	t.set(quantity, p.tps*1000/float64(len(p.waits)))
	return nil
}

// streams is a paced load while each node reads what agents need to keep tenants apart: the
// addresses of all pods of a TP.
func (t *trial) streams(ctx context.Context, nodes int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, f := range t.fleets {
		if err := f.Follow(ctx, joinapi.PathPacketFilter, t.urls()...); err != nil {
			return err
		}
	}
	if _, _, err := t.rest(ctx); err != nil {
		return err
	}
	if err := t.paceSize(ctx, fmt.Sprint("streams-", nodes), streamCPU); err != nil {
		return err
	}
	t.set(perStream, (t.round[streamCPU][t.side]-t.round[tpCPU][t.side])/float64(nodes)*1000)
	return nil
}

// size measures both when there are so many nodes.
func (t *trial) size(ctx context.Context, nodes int) error {
	tp, rp, err := t.rest(ctx)
	if err != nil {
		return err
	}
	t.side = sizeName(nodes)
	t.set(tpIdle, tp)
	t.set(rpIdle, rp)
	return t.weigh(ctx)
}

// growthQuantities are those of a size.
func growthQuantities() []string {
	return []string{tpResident, tpPSS, tpLive, tpIdle, rpResident, rpPSS, rpLive, rpIdle, tpCPU, streamCPU, perStream}
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
	case quantity == perStream:
		return ""
	case quantity == tpCPU || quantity == streamCPU:
		return fmt.Sprintf("%.3g µs", each*1000)
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
