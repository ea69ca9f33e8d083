package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a4s-io/a4s/tests/bench/sides"
)

// settings are how large the benchmark is.
type settings struct {
	// binary is a4s, out where results go.
	binary, out string
	layouts     []layout
	rounds      int
	// nodes are those of all partitions, growth the numbers of them by which memory is
	// weighed.
	nodes  int
	growth []int
	// tenants is how many each TP has, clients how many requests are made at a time.
	tenants, clients int
	// rate is how many pods a second each TP gets in the paced load, busy how many
	// Deployments of ten pods one gets as fast as it can.
	rate float64
	busy int
	// contended is how many nodes all TPs fill at once, changes how many changes of nodes
	// are timed.
	contended, changes int
	// settle is how long servers are left alone after their start and after the nodes came,
	// idle how long they are measured then, paced and calm how long there is a load.
	settle, idle, paced, calm time.Duration
}

// parse reads the arguments of the command.
func parse(args []string) (*settings, error) {
	s := &settings{
		binary: cmp.Or(os.Getenv("A4S_BINARY"), "bin/a4s"),
		out:    cmp.Or(os.Getenv("A4S_BENCH_OUT"), "bin/bench"),
	}
	whole := flag.NewFlagSet("partitions", flag.ContinueOnError)
	layouts := whole.String("layouts", "1,2,3,4,alone", "what to measure, with commas: K tenant and K resource "+
		"partitions, or alone, home as both; others are compared with the first")
	whole.IntVar(&s.rounds, "rounds", 3, "rounds, each with all layouts")
	whole.IntVar(&s.nodes, "nodes", 1000, "hollow nodes of all partitions")
	sizes := whole.String("growth", "250,500,1000,2000",
		"numbers of nodes by which the memory of one tenant partition is weighed after the rounds; empty for none")
	whole.IntVar(&s.tenants, "tenants", 10, "tenants of each tenant partition")
	whole.IntVar(&s.clients, "clients", 8, "requests of the load of a tenant partition that are made at a time")
	whole.Float64Var(&s.rate, "rate", 5, "pods a second that each tenant partition gets in the paced load")
	whole.IntVar(&s.busy, "busy", 100, "Deployments of 10 pods that one tenant partition gets as fast as it can")
	whole.IntVar(&s.contended, "contended", 20, "nodes that all tenant partitions fill at once")
	whole.IntVar(&s.changes, "changes", 200, "changes of nodes that are timed")
	whole.DurationVar(&s.settle, "settle", 10*time.Second, "how long servers are left alone before they are measured")
	whole.DurationVar(&s.idle, "idle", 20*time.Second, "how long idle servers are measured")
	whole.DurationVar(&s.paced, "paced", 40*time.Second, "how long the paced load is")
	whole.DurationVar(&s.calm, "calm", 30*time.Second, "how long the load at 20 % of saturation is")
	if err := sides.Parse(whole, args, smoke()); err != nil {
		return nil, err
	}
	var err error
	if s.layouts, err = parseLayouts(*layouts); err != nil {
		return nil, err
	}
	if s.growth, err = parseSizes(*sizes); err != nil {
		return nil, err
	}
	most := 0
	for _, l := range s.layouts {
		most = max(most, l.partitions)
	}
	switch {
	case min(s.rounds, s.nodes, s.tenants, s.clients, s.busy, s.contended, s.changes) < 1 || s.rate <= 0:
		return nil, errors.New("all numbers have to be at least 1")
	case min(s.nodes, s.contended) < most || s.contended > s.nodes:
		return nil, errors.New("each resource partition needs a node, and one that is filled, and there are no more " +
			"nodes to fill than nodes")
	}
	if err := sides.Absolute(&s.binary, &s.out); err != nil {
		return nil, err
	}
	return s, nil
}

// smoke is what a small run has.
func smoke() map[string]string {
	return map[string]string{
		"layouts": "1,2,alone", "rounds": "1", "nodes": "12", "growth": "8,16", "tenants": "2", "rate": "5",
		"busy": "5", "contended": "4", "changes": "10", "settle": "1s", "idle": "3s", "paced": "5s", "calm": "5s",
	}
}

func parseSizes(list string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--growth: %q is no number of nodes: want whole numbers from 1, such as 250,500",
				text)
		}
		all = append(all, n)
	}
	if !slices.IsSorted(all) {
		return nil, fmt.Errorf("--growth: %s has fewer nodes after more: nodes come and do not go", list)
	}
	return all, nil
}

// String says what was measured.
func (s *settings) String() string {
	return fmt.Sprintf("%d hollow nodes in all, each with a connection to each TP; %d tenants a TP; paced: %.3g pods "+
		"a second and TP in Deployments of %d for %v.", s.nodes, s.tenants, s.rate, pacedReplicas, s.paced)
}

// layout is how many TPs and RPs there are, each a process of its own; with 0 home is both.
type layout struct{ partitions int }

const aloneName = "alone"

func parseLayouts(list string) ([]layout, error) {
	var all []layout
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		l := layout{}
		if text != aloneName {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > mostPartitions {
				return nil, fmt.Errorf("--layouts: %q is none: want %s, or 1 to %d partitions", text, aloneName,
					mostPartitions)
			}
			l.partitions = n
		}
		if slices.Contains(all, l) {
			return nil, fmt.Errorf("--layouts: %s is there twice", text)
		}
		all = append(all, l)
	}
	return all, nil
}

// split reports whether TPs and RPs are processes of their own.
func (l layout) split() bool { return l.partitions > 0 }

// each is how many TPs there are, and as many RPs.
func (l layout) each() int { return max(l.partitions, 1) }

// first is the number of the first node of an RP, when there are so many nodes in all.
func (l layout) first(rp, nodes int) int { return rp * nodes / l.each() }

// String is the name in results.
func (l layout) String() string {
	if !l.split() {
		return "home alone"
	}
	return fmt.Sprintf("%d TP, %[1]d RP", l.partitions)
}
