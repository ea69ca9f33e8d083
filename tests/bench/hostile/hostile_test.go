package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/measure"
)

func TestSmallRunsKeepWhatIsSaid(t *testing.T) {
	s, err := parse([]string{"--smoke", "--beside", "7s", "--rows", "gets, selectors"})
	if err != nil {
		t.Fatal(err)
	}
	if s.beside != 7*time.Second || s.alone != 3*time.Second || s.rounds != 1 {
		t.Errorf("settings are %+v", s)
	}
	if len(s.rows) != 2 || s.rows[0].name != "gets" || s.rows[1].name != "selectors" {
		t.Errorf("rows are %+v", s.rows)
	}
	for _, args := range [][]string{{"--rows", "nobody"}, {"--rounds", "0"}, {"more"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q are taken", args)
		}
	}
}

func TestRowsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range allRows() {
		if r.name == "" || r.what == "" || r.attack == nil || seen[r.name] {
			t.Errorf("row %q is not whole, or there twice", r.name)
		}
		seen[r.name] = true
	}
}

// TestOneRowIsAway: of all rows, which a small run has, too, one goes through another
// partition.
func TestOneRowIsAway(t *testing.T) {
	s, err := parse([]string{"--smoke"})
	if err != nil {
		t.Fatal(err)
	}
	var away []string
	for _, r := range s.rows {
		if r.away() {
			away = append(away, r.name)
		}
	}
	if len(s.rows) != len(allRows()) || !slices.Equal(away, []string{"partition"}) {
		t.Errorf("%v of %v are away", away, s.rows)
	}
}

// TestAdministratorsAskForHome: what an administrator asks another partition's server for is
// there, too, if the path does not say so. The access itself stays as it was.
func TestAdministratorsAskForHome(t *testing.T) {
	access := &rest.Config{Host: "https://192.0.2.1:6443"}
	if got := ofHome(access).Host; got != "https://192.0.2.1:6443/partitions/main" {
		t.Errorf("they ask %s", got)
	}
	if access.Host != "https://192.0.2.1:6443" {
		t.Errorf("others ask %s, too", access.Host)
	}
}

func TestReportHasARatio(t *testing.T) {
	round := measure.Round{}
	for quantity, value := range map[string]float64{
		getAlone + p50: 2, getBeside + p50: 5, getAlone + p99: 10, getBeside + p99: 40, peak: 900, answered: 12,
	} {
		round.Set(quantity, "gets", value)
	}
	var out bytes.Buffer
	s, err := parse([]string{"--rows", "gets"})
	if err != nil {
		t.Fatal(err)
	}
	if err := report(&out, measure.Rounds{round}, s); err != nil {
		t.Fatal(err)
	}
	if want := "| gets | 2, 10 | 5, 40 | 2.5, 4 |"; !strings.Contains(out.String(), want) {
		t.Errorf("%s has no line %s", out.String(), want)
	}
}
