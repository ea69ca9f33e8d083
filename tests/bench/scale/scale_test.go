package main

import (
	"slices"
	"testing"
	"time"

	"github.com/a4s-io/a4s/tests/bench/sides"
)

func TestSmallRunsKeepWhatIsSaid(t *testing.T) {
	s, err := parse([]string{"--smoke", "--nodes", "7", "--sides", "tenants,raised"})
	if err != nil {
		t.Fatal(err)
	}
	if s.nodes != 7 || s.spaces != 5 || s.rounds != 1 || s.idle != time.Second {
		t.Errorf("settings are %+v", s)
	}
	if len(s.sides) != 2 || s.sides[0].short != "tenants" || s.sides[1].short != "raised" {
		t.Errorf("sides are %+v", s.sides)
	}
	for _, args := range [][]string{{"--sides", "nobody"}, {"--nodes", "0"}, {"more"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q are taken", args)
		}
	}
}

func TestGrowthMeasuresOneSideAtSeveralSizes(t *testing.T) {
	s, err := parse([]string{"--sides", "tenants", "--growth", "1, 4", "--nodes", "10", "--deployments", "5"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range s.runs() {
		names = append(names, r.name)
	}
	if want := []string{"10 nodes, 50 pods", "40 nodes, 200 pods"}; !slices.Equal(names, want) {
		t.Errorf("a round measures %q, want %q", names, want)
	}
	for _, args := range [][]string{{"--growth", "1,2"}, {"--sides", "tenants", "--growth", "0"},
		{"--sides", "tenants", "--growth", "x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q are taken", args)
		}
	}
}

func TestPaceIsLearntOnce(t *testing.T) {
	s := &settings{}
	s.learn(100)
	s.learn(200)
	if s.pace != 60 {
		t.Errorf("the pace is %v", s.pace)
	}
}

func TestRoundsBeginWithAnotherSide(t *testing.T) {
	all := (&settings{sides: allContestants()}).runs()
	var first []string
	for round := range len(all) + 1 {
		turn := sides.InTurn(round, all)
		if len(turn) != len(all) {
			t.Fatalf("round %d has %d sides", round, len(turn))
		}
		first = append(first, turn[0].short)
	}
	if want := append(sideNames(), all[0].short); !slices.Equal(first, want) {
		t.Errorf("rounds begin with %q, want %q", first, want)
	}
}
