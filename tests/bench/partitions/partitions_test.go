package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/tests/measure"
)

func TestSmallRunsKeepWhatIsSaid(t *testing.T) {
	s, err := parse([]string{"--smoke", "--nodes", "9", "--layouts", "2, alone"})
	if err != nil {
		t.Fatal(err)
	}
	if s.nodes != 9 || s.tenants != 2 || s.rounds != 1 || s.idle != 3*time.Second ||
		!slices.Equal(s.growth, []int{8, 16}) {
		t.Errorf("settings are %+v", s)
	}
	if want := []layout{{2}, {0}}; !slices.Equal(s.layouts, want) {
		t.Errorf("layouts are %v, want %v", s.layouts, want)
	}
	for _, args := range [][]string{
		{"--layouts", "x"}, {"--layouts", "0"}, {"--layouts", "7"}, {"--layouts", "1,1"}, {"--layouts", ""},
		{"--growth", "1,x"}, {"--growth", "0"}, {"--growth", "500,250"}, {"--nodes", "3", "--contended", "3"},
		{"--contended", "2"}, {"--contended", "1001"}, {"--rate", "0"}, {"more"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q are taken", args)
		}
	}
	if s, err := parse([]string{"--growth", ""}); err != nil || s.growth != nil {
		t.Errorf("no growth is %v, %v", s, err)
	}
}

// TestNodesAreSpread: each node is of one RP, and those that are filled are of all.
func TestNodesAreSpread(t *testing.T) {
	for _, partitions := range []int{0, 1, 2, 3, 4} {
		c := &cluster{settings: &settings{nodes: 10}, layout: layout{partitions}}
		for range c.layout.each() {
			c.rps = append(c.rps, &server{})
		}
		if all := c.spread(10); len(all) != 10 || all[9] != "hollow-00009" {
			t.Errorf("%v: all are %v", c.layout, all)
		}
		few := c.spread(5)
		if slices.Sort(few); len(slices.Compact(few)) != 5 {
			t.Errorf("%v: 5 are %v", c.layout, few)
		}
		for rp := range c.rps {
			from, to := c.layout.first(rp, 10), c.layout.first(rp+1, 10)
			if !slices.ContainsFunc(few, func(name string) bool {
				n := int(name[len(name)-1] - '0')
				return n >= from && n < to
			}) {
				t.Errorf("%v: no node of RP %d is in %v", c.layout, rp, few)
			}
		}
	}
}

func TestChangesAreSeenOnce(t *testing.T) {
	start := time.Now()
	s := newSightings()
	s.begin(start)
	if n := s.begin(start.Add(time.Second)); n != 1 {
		t.Errorf("the second change is %d", n)
	}
	s.see(0, "1", start.Add(3*time.Second))
	s.see(0, "1", start.Add(9*time.Second)) // by another event
	s.see(1, "1", start.Add(2*time.Second))
	s.see(1, "0", start.Add(5*time.Second))
	s.see(1, "7", start.Add(5*time.Second))
	s.see(1, "x", start.Add(5*time.Second))
	want := []time.Duration{time.Second, 2 * time.Second, 5 * time.Second}
	if got := s.times(); !slices.Equal(got, want) {
		t.Errorf("times are %v, want %v", got, want)
	}
}

// TestReport: every claim has both sides, the ratio and whether it is reached.
func TestReport(t *testing.T) {
	s, err := parse([]string{"--nodes", "500", "--growth", "100,300"})
	if err != nil {
		t.Fatal(err)
	}
	s.out = t.TempDir()
	round := measure.Round{}
	for name, cpu := range map[string]float64{"home alone": 10, "1 TP, 1 RP": 10.4, "4 TP, 4 RP": 13} {
		round.Set(tpCPU, name, cpu)
		round.Set(homeCPU, name, cpu)
		round.Set(failedPods, name, 0)
		round.Set(calmP99, name, 0.25)
	}
	growth := measure.Round{}
	for size, mib := range map[int]float64{0: 300, 100: 310, 300: 330} {
		growth.Set(tpResident, sizeName(size), mib)
	}
	if err := report(results{rounds: measure.Rounds{round}, growth: measure.Rounds{growth}}, s); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(s.out, "partitions.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, want := range []string{
		"| work: CPU of a TP a pod | 10.4 (1 TP, 1 RP) | 13 (4 TP, 4 RP) | 1.25 (1.25–1.25) | within 10 % | **no** |",
		"| commit: CPU of home a pod, beside home alone | 10 (home alone) | 10.4 (1 TP, 1 RP) | 1.04 (1.04–1.04) | " +
			"at most 1.05 | yes |",
		"| commit: pods that failed |  | 0 (4 TP, 4 RP) |  | 0 | yes |",
		"| a4s, 4 TP, 4 RP, 20 % of saturation | 500, hollow |  |  | 0.25 |",
		"| 60,000, hollow | <2 | <3 | <7 |",
		"| " + tpResident + " | 300 | 310 | 330 | 102 KiB |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
	for _, name := range []string{"partitions.svg", "partitions-memory.svg"} {
		data, err := os.ReadFile(filepath.Join(s.out, name))
		if err != nil || !strings.Contains(string(data), "<rect") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
