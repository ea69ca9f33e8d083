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

// ofSaturation is the part of what upstream can do at most that the paced load
// asks for.
const ofSaturation = 0.6

// settings are how large the benchmark is.
type settings struct {
	// binary is a4s, programs the directory of upstream's, out where results go.
	binary, programs, out string
	sides                 []contestant
	rounds                int
	// replicas is how many pods a Deployment has, clients how many requests of
	// the load are made at a time.
	nodes, spaces, deployments, replicas, clients int
	// idle is how long the idle server is measured, alone the reader without
	// others, paced the load at a pace, and settle how long the server is left
	// alone in the end.
	idle, alone, paced, settle time.Duration
	// pace is how many pods a second the paced load asks for, 0 until it is known.
	pace float64
	// growth are the sizes at which one side is measured, as multiples of nodes and
	// Deployments; empty for a comparison of sides.
	growth []int
}

// parse reads the arguments of the command.
func parse(args []string) (*settings, error) {
	s := &settings{
		binary:   cmp.Or(os.Getenv("A4S_BINARY"), "bin/a4s"),
		programs: cmp.Or(os.Getenv("A4S_UPSTREAM"), "bin/upstream"),
		out:      cmp.Or(os.Getenv("A4S_BENCH_OUT"), "bin/bench"),
	}
	whole := flag.NewFlagSet("scale", flag.ContinueOnError)
	names := whole.String("sides", "",
		"what to measure, with commas, of "+strings.Join(sideNames(), ", ")+" (default all)")
	whole.IntVar(&s.rounds, "rounds", 3, "rounds, each with all sides")
	whole.IntVar(&s.nodes, "nodes", 1000, "hollow nodes")
	whole.IntVar(&s.spaces, "spaces", 100, "tenants or namespaces, made before the load and again during it")
	whole.IntVar(&s.deployments, "deployments", 500, "Deployments of the load that is made as fast as it goes")
	whole.IntVar(&s.replicas, "replicas", 10, "pods of each Deployment")
	whole.IntVar(&s.clients, "clients", 10, "requests of the load that are made at a time")
	whole.DurationVar(&s.idle, "idle", time.Minute, "how long the idle server is measured")
	whole.DurationVar(&s.alone, "alone", 30*time.Second, "how long the reader next door is alone")
	whole.DurationVar(&s.paced, "paced", time.Minute, "how long the load has a pace, before more spaces are made")
	whole.DurationVar(&s.settle, "settle", 10*time.Minute, "when memory is weighed after all pods are gone")
	whole.Float64Var(&s.pace, "pace", 0, "pods a second of the paced load (default 60 % of what upstream can do)")
	sizes := whole.String("growth", "",
		"measure one side at several sizes, such as 1,2,4 times the nodes and Deployments, instead of several sides")
	if err := sides.Parse(whole, args, smoke()); err != nil {
		return nil, err
	}
	if min(s.rounds, s.nodes, s.spaces, s.deployments, s.replicas, s.clients) < 1 {
		return nil, errors.New("all numbers have to be at least 1")
	}
	var err error
	if s.sides, err = contestants(*names); err != nil {
		return nil, err
	}
	if err := s.grow(*sizes); err != nil {
		return nil, err
	}
	if err := sides.Absolute(&s.binary, &s.programs, &s.out); err != nil {
		return nil, err
	}
	return s, nil
}

// smoke is what a small run has.
func smoke() map[string]string {
	return map[string]string{
		"rounds": "1", "nodes": "20", "spaces": "5", "deployments": "10", "replicas": "5",
		"idle": "1s", "alone": "1s", "paced": "2s", "settle": "1s",
	}
}

// grow sets the sizes.
func (s *settings) grow(sizes string) error {
	if sizes == "" {
		return nil
	}
	if len(s.sides) != 1 {
		return errors.New("--growth is of one side: name it by --sides, such as --sides tenants")
	}
	for text := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return fmt.Errorf("--growth: %q is no multiple: want whole numbers from 1, such as 1,2,4", text)
		}
		s.growth = append(s.growth, n)
	}
	return nil
}

// runs are what a round measures, each under a name of its own.
func (s *settings) runs() []sized {
	var all []sized
	for _, c := range s.sides {
		all = append(all, sized{s, c})
	}
	if len(s.growth) > 0 {
		all = nil
	}
	for _, n := range s.growth {
		larger, c := *s, s.sides[0]
		larger.nodes *= n
		larger.deployments *= n
		c.name = fmt.Sprintf("%d nodes, %d pods", larger.nodes, larger.deployments*larger.replicas)
		all = append(all, sized{&larger, c})
	}
	return all
}

// sized is a side and how large it is measured.
type sized struct {
	*settings
	contestant
}

// String names it in results.
func (r sized) String() string { return r.name }

// learn sets the pace by what a side could do at most, if there is none yet.
func (s *settings) learn(saturated float64) {
	if s.pace == 0 {
		s.pace = ofSaturation * saturated
	}
}

// String says what was measured.
func (s *settings) String() string {
	if len(s.growth) > 0 {
		return fmt.Sprintf("%s: %d spaces, Deployments of %d pods by %d clients; paced: %.1f pods a second.",
			s.sides[0].name, s.spaces, s.replicas, s.clients, s.pace)
	}
	return fmt.Sprintf("%d nodes, %d spaces, %d Deployments of %d pods by %d clients; paced: %.1f pods a second.",
		s.nodes, s.spaces, s.deployments, s.replicas, s.clients, s.pace)
}

// sideNames are the names of all sides.
func sideNames() []string {
	var names []string
	for _, c := range allContestants() {
		names = append(names, c.short)
	}
	return names
}

// contestants returns the sides with these names, separated by commas, all if
// there are none.
func contestants(names string) ([]contestant, error) {
	all := allContestants()
	if names == "" {
		return all, nil
	}
	var some []contestant
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(c contestant) bool { return c.short == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("there is no side %q: want some of %s", name, strings.Join(sideNames(), ", "))
		}
		some = append(some, all[i])
	}
	return some, nil
}
