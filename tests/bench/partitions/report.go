package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/a4s-io/a4s/tests/measure"
)

// The quantities, by the names that they have in results. What is of a TP or an RP without
// more is the mean of all.
const (
	tpCPU    = "paced: CPU of a TP a pod, ms"
	homeCPU  = "paced: CPU of home as TP a pod, ms"
	rpPodCPU = "paced: CPU of the RPs a pod, ms"
	allCPU   = "paced: CPU of all servers a pod, ms"
	came     = "paced: pods a second and TP that came"
	busyAll  = "paced: cores that all servers need"
	pacedP50 = "paced: pod seen until Running, p50, s"
	pacedP90 = "paced: pod seen until Running, p90, s"
	pacedP99 = "paced: pod seen until Running, p99, s"

	rpNodeIdle = "idle: CPU of the RPs a node beyond that without nodes, ms/s"
	tpNodeIdle = "idle: CPU of a TP for a node of the cluster beyond that without nodes, ms/s"
	tpEmpty    = "idle: cores of a TP without nodes"
	tpIdle     = "idle: cores of a TP with all nodes"
	rpEmpty    = "idle: cores of an RP without nodes"
	rpIdle     = "idle: cores of an RP with its nodes"
	rpNodes    = "nodes of an RP"
	nodesTime  = "all nodes registered, and known to all TPs, s"

	busyRate = "saturated, one TP on one core: pods a second"
	busyCPU  = "saturated, one TP on one core: its CPU a pod, ms"
	busyCore = "saturated, one TP on one core: of that core used"
	busyEach = "saturated, one TP on one core: pods for a second of that core's time"
	busyRest = "saturated, one TP on one core: cores of all other servers"
	busyP50  = "saturated, one TP on one core: pod seen until Running, p50, s"
	busyP99  = "saturated, one TP on one core: pod seen until Running, p99, s"

	calmRate = "20 % of saturation: pods a second"
	calmP50  = "20 % of saturation: pod seen until Running, p50, s"
	calmP90  = "20 % of saturation: pod seen until Running, p90, s"
	calmP99  = "20 % of saturation: pod seen until Running, p99, s"

	contendedRoom   = "contended: pods that there is room for"
	contendedRan    = "contended: pods that run"
	contendedFailed = "contended: pods that failed"
	failedPods      = "pods that failed, in all loads"

	changeP50 = "change of a node, RP to TP, p50, ms"
	changeP99 = "change of a node, RP to TP, p99, ms"

	tpResident = "memory of a TP: resident, MiB"
	tpPSS      = "memory of a TP: PSS, MiB"
	tpLive     = "memory of a TP: live heap, MiB"
	rpResident = "memory of an RP: resident, MiB"
	rpPSS      = "memory of an RP: PSS, MiB"
	rpLive     = "memory of an RP: live heap, MiB"
	startTime  = "all servers ready, s"

	// Of the number of nodes.
	streamCPU = "paced, nodes have the stream of pod addresses: CPU of a TP a pod, ms"
	perStream = "of this for the stream of a node, a pod, µs"
)

// quantities are all, in the order of the report.
func quantities() []string {
	return []string{
		tpCPU, homeCPU, rpPodCPU, allCPU, came, busyAll, pacedP50, pacedP90, pacedP99,
		rpNodeIdle, tpNodeIdle, tpEmpty, tpIdle, rpEmpty, rpIdle, rpNodes, nodesTime,
		busyRate, busyEach, busyCPU, busyCore, busyRest, busyP50, busyP99,
		calmRate, calmP50, calmP90, calmP99,
		contendedRoom, contendedRan, contendedFailed, failedPods, changeP50, changeP99,
		tpResident, tpPSS, tpLive, rpResident, rpPSS, rpLive, startTime,
	}
}

// results are what was measured until now.
type results struct {
	rounds, growth measure.Rounds
}

// report prints and keeps what was measured, and draws it.
func report(r results, s *settings) error {
	var names []string
	for _, l := range s.layouts {
		names = append(names, l.String())
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s Rounds: %d.\n\n%s\n%s\n", s, len(r.rounds), claims(r, s),
		r.rounds.Table(quantities(), names))
	if err := draw(filepath.Join(s.out, "partitions.svg"), ratios(r.rounds, names)); err != nil {
		return err
	}
	if len(r.growth) > 0 {
		text.WriteString(growthTable(r.growth, s.growth))
		if err := draw(filepath.Join(s.out, "partitions-memory.svg"), memoryChart(r.growth, s.growth)); err != nil {
			return err
		}
	}
	fmt.Printf("\n%s\n", text.String())
	return os.WriteFile(filepath.Join(s.out, "partitions.md"), []byte(text.String()), 0o644)
}

// claim is one that the documentation makes: two sides of it, the ratio, and the goal.
type claim struct {
	name, one, other, ratio, goal string
	reached                       bool
}

// claims is a table of all that can be made of what was measured.
func claims(r results, s *settings) string {
	first, last := layout{1}, layout{}
	for _, l := range s.layouts {
		last.partitions = max(last.partitions, l.partitions)
	}
	var all []claim
	add := func(name, quantity string, side, to layout, goal string, good func(float64) bool) {
		ratio := r.rounds.Ratio(quantity, side.String(), to.String())
		if math.IsNaN(ratio.Median) || side == to {
			return
		}
		all = append(all, claim{name, value(r.rounds, quantity, to), value(r.rounds, quantity, side),
			fmt.Sprintf("%.2f (%.2f–%.2f)", ratio.Median, ratio.Low, ratio.High), goal, good(ratio.Median)})
	}
	tenth := func(v float64) bool { return v <= 1.1 && v >= 0.9 }
	add("work: CPU of a TP a pod", tpCPU, last, first, "within 10 %", tenth)
	add("work: CPU of home, the first TP, a pod", homeCPU, last, first, "within 10 %", tenth)
	add("work: CPU of the RPs a node, idle", rpNodeIdle, last, first, "within 10 %", tenth)
	add("throughput of a TP on one core", busyRate, last, first, "within 10 %",
		func(v float64) bool { return v >= 0.9 })
	add("throughput: pods for a second of that core's time", busyEach, last, first, "within 10 %",
		func(v float64) bool { return v >= 0.9 })
	for _, l := range []layout{first, last} {
		add("commit: CPU of home a pod, beside home alone", homeCPU, l, layout{}, "at most 1.05",
			func(v float64) bool { return v <= 1.05 })
	}
	single := func(name, quantity string, l layout, goal string, good func(float64) bool) {
		v := r.rounds.Of(quantity, l.String())
		if math.IsNaN(v.Median) {
			return
		}
		all = append(all, claim{name, "", value(r.rounds, quantity, l), "", goal, good(v.Median)})
	}
	for _, l := range []layout{first, last} {
		single("commit: CPU of the RPs a pod, ms", rpPodCPU, l, "at most 3", func(v float64) bool { return v <= 3 })
		single("commit: pods that failed", failedPods, l, "0", func(v float64) bool { return v == 0 })
		single("change of a node, RP to TP, p99, ms", changeP99, l, "less than 1,000",
			func(v float64) bool { return v < 1000 })
	}
	var text strings.Builder
	text.WriteString("| | beside | | ratio | goal | reached |\n|---|---|---|---|---|---|\n")
	for _, c := range all {
		reached := map[bool]string{true: "yes", false: "**no**"}[c.reached]
		if c.goal == "" {
			reached = ""
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s |\n", c.name, c.one, c.other, c.ratio, c.goal, reached)
	}
	return text.String() + "\n" + published(r.rounds, s)
}

// value is a median, and where it is from.
func value(r measure.Rounds, quantity string, l layout) string {
	return fmt.Sprintf("%s (%s)", measure.Number(r.Of(quantity, l.String()).Median), l)
}

// published is a table of how long pods took, beside what the original has published.
func published(r measure.Rounds, s *settings) string {
	var text strings.Builder
	text.WriteString("| pod seen until Running | nodes | p50, s | p90, s | p99, s |\n|---|---|---|---|---|\n")
	for _, l := range s.layouts {
		for _, load := range []struct{ name, p50, p90, p99 string }{
			{"20 % of saturation", calmP50, calmP90, calmP99}, {"paced", pacedP50, pacedP90, pacedP99},
		} {
			of := func(quantity string) string { return measure.Number(r.Of(quantity, l.String()).Median) }
			fmt.Fprintf(&text, "| a4s, %s, %s | %d, hollow | %s | %s | %s |\n", l, load.name, s.nodes,
				of(load.p50), of(load.p90), of(load.p99))
		}
	}
	text.WriteString("| Arktos v1.0, 3 TP, 3 RP, published | 60,000, hollow | <2 | <3 | <7 |\n" +
		"| Arktos v0.9, 5 TP, 5 RP, published | 50,000, hollow | 1.79 | 2.58 | 3.71 |\n")
	return text.String()
}

// ratios is how quantities change with the number of partitions.
func ratios(r measure.Rounds, names []string) measure.Chart {
	c := measure.Chart{Title: "What changes with the number of partitions", Unit: "times that of " + names[0], Line: 1}
	for _, q := range []struct{ name, quantity string }{
		{"CPU of a TP a pod", tpCPU}, {"CPU of the RPs a pod", rpPodCPU}, {"CPU of the RPs a node", rpNodeIdle},
		{"pods a second, saturated", busyRate}, {"a pod's wait, paced, p50", pacedP50},
		{"a node's change, p50", changeP50}, {"memory of a TP", tpResident},
	} {
		g := measure.Group{Name: q.name}
		for _, name := range names {
			if e := r.Ratio(q.quantity, name, names[0]); !math.IsNaN(e.Median) {
				g.Bars = append(g.Bars, measure.Bar{Name: name, Estimate: e})
			}
		}
		if len(g.Bars) > 0 {
			c.Groups = append(c.Groups, g)
		}
	}
	return c
}

func draw(path string, c measure.Chart) error {
	var drawn bytes.Buffer
	if err := c.SVG(&drawn); err != nil {
		return err
	}
	return os.WriteFile(path, drawn.Bytes(), 0o644)
}
