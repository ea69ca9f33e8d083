package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

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
