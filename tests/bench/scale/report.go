package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/tests/measure"
)

// The quantities, by the names that they have in results.
const (
	saturatedRate = "saturated: pods a second"
	saturatedCPU  = "saturated: CPU a pod, ms"
	saturatedP50  = "saturated: pod seen until Running, p50, s"
	saturatedP99  = "saturated: pod seen until Running, p99, s"
	saturatedSet  = "saturated: of this until it has a node, p99, s"
	createP99     = "saturated: a Deployment made, p99, ms"

	pacedRate = "paced: pods a second asked for"
	pacedCame = "paced: pods a second that came"
	pacedCPU  = "paced: CPU a pod, ms"
	pacedP50  = "paced: pod seen until Running, p50, s"
	pacedP99  = "paced: pod seen until Running, p99, s"
	pacedSet  = "paced: of this until it has a node, p99, s"

	readP50          = "read next door, alone, p50, ms"
	readP99          = "read next door, alone, p99, ms"
	saturatedReadP50 = "read next door, saturated, p50, ms"
	saturatedReadP99 = "read next door, saturated, p99, ms"
	pacedReadP50     = "read next door, paced, p50, ms"
	pacedReadP99     = "read next door, paced, p99, ms"
	saturatedNotice  = "read next door, p99, saturated / alone"
	pacedNotice      = "read next door, p99, paced / alone"

	nodesTime = "all nodes registered and usable, s"
	nodeCPU   = "CPU to register a node, ms"
	idleEmpty = "idle without nodes, cores"
	idleNodes = "idle with all nodes, cores"

	spacesTime       = "spaces made, s"
	spaceCPU         = "spaces made: CPU each, ms"
	loadedSpacesTime = "spaces made beside the paced load, s"
	loadedSpaceCPU   = "spaces made beside the paced load: CPU each, ms"

	memoryBefore = "resident before the load, MiB"
	memoryPeak   = "peak resident, MiB"
	memoryAfter  = "resident some time after the last pod, MiB"
	memoryKept   = "resident after / before"
)

// quantities are all, in the order of the report.
func quantities() []string {
	return []string{
		saturatedRate, saturatedCPU, saturatedP50, saturatedP99, saturatedSet, createP99,
		pacedRate, pacedCame, pacedCPU, pacedP50, pacedP99, pacedSet,
		readP50, readP99, saturatedReadP50, saturatedReadP99, pacedReadP50, pacedReadP99,
		saturatedNotice, pacedNotice,
		nodesTime, nodeCPU, idleEmpty, idleNodes,
		spacesTime, spaceCPU, loadedSpacesTime, loadedSpaceCPU,
		memoryBefore, memoryPeak, memoryAfter, memoryKept,
	}
}

// report prints and keeps the table of all rounds: medians, and ratios to the
// first side.
func report(rounds measure.Rounds, s *settings) error {
	var names []string
	for _, r := range s.runs() {
		names = append(names, r.name)
	}
	text := s.String() + "\n\n" + rounds.Table(quantities(), names)
	fmt.Printf("\n%s\n", text)
	if len(s.growth) > 0 {
		if err := plot(rounds, filepath.Join(s.out, "growth.svg"), names); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(s.out, "growth.md"), []byte(text), 0o644)
	}
	return os.WriteFile(filepath.Join(s.out, "scale.md"), []byte(text), 0o644)
}

// plot draws how quantities grow from the first size on.
func plot(rounds measure.Rounds, path string, names []string) error {
	c := measure.Chart{Title: "What grows with nodes and pods", Unit: "times that of " + names[0], Line: 1}
	for _, q := range []struct{ name, quantity string }{
		{"pods a second, saturated", saturatedRate}, {"CPU a pod, saturated", saturatedCPU},
		{"CPU a pod, paced", pacedCPU}, {"a pod's wait, paced, p50", pacedP50},
		{"CPU to register a node", nodeCPU}, {"CPU when idle", idleNodes},
		{"memory when idle", memoryBefore}, {"memory at the peak", memoryPeak},
	} {
		g := measure.Group{Name: q.name}
		for _, size := range names {
			if e := rounds.Ratio(q.quantity, size, names[0]); !math.IsNaN(e.Median) {
				g.Bars = append(g.Bars, measure.Bar{Name: size, Estimate: e})
			}
		}
		c.Groups = append(c.Groups, g)
	}
	var drawn bytes.Buffer
	if err := c.SVG(&drawn); err != nil {
		return err
	}
	return os.WriteFile(path, drawn.Bytes(), 0o644)
}
