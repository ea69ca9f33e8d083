package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/a4s-io/a4s/tests/bench/sides"
)

// settings are how large the benchmark is.
type settings struct {
	// binary is a4s, programs the directory of upstream's, out where results go.
	binary, programs, out string
	layouts               []layout
	rounds                int
	// tenants have pods, all the same number, which are on nodes.
	tenants, pods, nodes int
	// watched is how many tenants have a watch of their own.
	watched int
	// rate is how many writes there are a second, during load.
	rate float64
	// settle is how long servers are left alone after their start, idle how long they are
	// measured then, load for how long there are writes.
	settle, idle, load time.Duration
	// clients is how many requests are made at a time when the datastore is filled.
	clients int
}

// parse reads the arguments of the command.
func parse(args []string) (*settings, error) {
	s := &settings{
		binary:   cmp.Or(os.Getenv("A4S_BINARY"), "bin/a4s"),
		programs: cmp.Or(os.Getenv("A4S_UPSTREAM"), "bin/upstream"),
		out:      cmp.Or(os.Getenv("A4S_BENCH_OUT"), "bin/bench"),
	}
	whole := flag.NewFlagSet("groups", flag.ContinueOnError)
	layouts := whole.String("layouts", "1,1x2,2,4", "what to measure, with commas: G groups of one server each, GxS "+
		"groups of S servers each, or 0, one server without --service-group-id; others are compared with the first")
	whole.IntVar(&s.rounds, "rounds", 1, "rounds, each with all layouts")
	whole.IntVar(&s.tenants, "tenants", 400, "tenants")
	whole.IntVar(&s.pods, "pods", 40000, "pods of all tenants")
	whole.IntVar(&s.nodes, "nodes", 100, "hollow nodes that have the pods; with 0 the pods wait for a scheduler that "+
		"there is not")
	whole.IntVar(&s.watched, "watched", 40, "tenants of whose pods there is a watch")
	whole.Float64Var(&s.rate, "rate", 50, "writes of pods a second")
	whole.DurationVar(&s.settle, "settle", 150*time.Second, "how long servers are left alone after their start")
	whole.DurationVar(&s.idle, "idle", time.Minute, "how long idle servers are measured")
	whole.DurationVar(&s.load, "load", 2*time.Minute, "how long there are writes")
	whole.IntVar(&s.clients, "clients", 16, "requests that are made at a time to fill the datastore")
	if err := sides.Parse(whole, args, smoke()); err != nil {
		return nil, err
	}
	var err error
	if s.layouts, err = parseLayouts(*layouts); err != nil {
		return nil, err
	}
	switch {
	case min(s.rounds, s.pods, s.watched, s.clients) < 1 || s.nodes < 0 || s.rate <= 0:
		return nil, errors.New("all numbers but that of nodes have to be at least 1")
	case s.tenants < s.watched || s.tenants < s.mostGroups():
		return nil, errors.New("there are fewer tenants than are to be watched, or than groups")
	case s.pods < s.tenants:
		return nil, errors.New("there are fewer pods than tenants")
	}
	if err := sides.Absolute(&s.binary, &s.programs, &s.out); err != nil {
		return nil, err
	}
	return s, nil
}

// smoke is what a small run has.
func smoke() map[string]string {
	return map[string]string{
		"layouts": "1,2", "tenants": "8", "pods": "80", "nodes": "4", "watched": "4", "rate": "20", "settle": "1s",
		"idle": "2s", "load": "5s",
	}
}

// String says what was measured.
func (s *settings) String() string {
	return fmt.Sprintf("%d tenants, %d pods on %d nodes, %d tenants watched, %.0f writes a second for %v.",
		s.tenants, s.podsEach()*s.tenants, s.nodes, s.watched, s.rate, s.load)
}

func (s *settings) podsEach() int { return s.pods / s.tenants }

func (s *settings) mostGroups() (most int) {
	for _, l := range s.layouts {
		most = max(most, l.groups)
	}
	return most
}

func (s *settings) mostServers() (most int) {
	for _, l := range s.layouts {
		most = max(most, l.servers())
	}
	return most
}

// layout is how many service groups of how many servers each there are. No groups are one
// server without a group.
type layout struct{ groups, each int }

func parseLayouts(list string) ([]layout, error) {
	var all []layout
	for text := range strings.SplitSeq(list, ",") {
		l := layout{each: 1}
		text = strings.TrimSpace(text)
		groups, each, several := strings.Cut(text, "x")
		var err error
		if l.groups, err = strconv.Atoi(groups); err == nil && several {
			l.each, err = strconv.Atoi(each)
		}
		if err != nil {
			return nil, fmt.Errorf("%q is no layout: want such as 2 or 1x2: %w", text, err)
		}
		if l.groups < 0 || l.each < 1 || l.groups == 0 && l.each > 1 || l.servers() > 9 {
			return nil, fmt.Errorf("%q is no layout: want 0, or 1 to 9 servers in all", text)
		}
		all = append(all, l)
	}
	return all, nil
}

func (l layout) servers() int { return max(l.groups, 1) * l.each }

// group is the one of a server, "" for none.
func (l layout) group(server int) string {
	if l.groups == 0 {
		return ""
	}
	return fmt.Sprint(server % l.groups)
}

// owner is the group of a tenant, one of so many.
func (l layout) owner(tenant, tenants int) int { return tenant * max(l.groups, 1) / tenants }

// server is one of those that own a tenant, another one for each n.
func (l layout) server(tenant, tenants, n int) int {
	return l.owner(tenant, tenants) + max(l.groups, 1)*(n%l.each)
}

// bounds are the first tenant of a group, and that of the next one.
func (l layout) bounds(group, tenants int) (from, to int) {
	first := func(g int) int { return (g*tenants + l.groups - 1) / l.groups }
	return first(group), first(group + 1)
}

// String is the name in results.
func (l layout) String() string {
	switch {
	case l.groups == 0:
		return "no groups"
	case l.groups == 1 && l.each == 1:
		return "1 group"
	case l.groups == 1:
		return fmt.Sprintf("1 group, %d servers", l.each)
	case l.each == 1:
		return fmt.Sprintf("%d groups", l.groups)
	}
	return fmt.Sprintf("%d groups, %d servers each", l.groups, l.each)
}
