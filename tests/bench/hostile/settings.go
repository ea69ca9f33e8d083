package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/a4s-io/a4s/tests/bench/sides"
)

// settings are what is measured, and for how long.
type settings struct {
	// binary is a4s, out where results go.
	binary, out string
	rounds      int
	rows        []row
	// alone is how long the neighbour is measured without the attack, and beside with it.
	alone, beside time.Duration
}

// parse reads the arguments of the command.
func parse(args []string) (*settings, error) {
	s := &settings{
		binary: cmp.Or(os.Getenv("A4S_BINARY"), "bin/a4s"),
		out:    cmp.Or(os.Getenv("A4S_BENCH_OUT"), "bin/bench"),
	}
	whole := flag.NewFlagSet("hostile", flag.ContinueOnError)
	names := whole.String("rows", "", "what to do, with commas, of "+strings.Join(rowNames(), ", ")+" (default all)")
	whole.IntVar(&s.rounds, "rounds", 1, "rounds, each with all rows")
	whole.DurationVar(&s.alone, "alone", 20*time.Second, "how long the neighbour is measured alone")
	whole.DurationVar(&s.beside, "beside", 30*time.Second, "how long the neighbour is measured beside the attack")
	if err := sides.Parse(whole, args, smoke()); err != nil {
		return nil, err
	}
	if s.rounds < 1 || s.alone <= 0 || s.beside <= 0 {
		return nil, errors.New("all numbers have to be more than 0")
	}
	var err error
	if s.rows, err = rowsNamed(*names); err != nil {
		return nil, err
	}
	return s, sides.Absolute(&s.binary, &s.out)
}

// smoke is what a small run has.
func smoke() map[string]string {
	return map[string]string{"rounds": "1", "alone": "3s", "beside": "4s"}
}

func rowNames() []string {
	var names []string
	for _, r := range allRows() {
		names = append(names, r.name)
	}
	return names
}

// rowsNamed returns the rows with these names, separated by commas, all if there are
// none.
func rowsNamed(names string) ([]row, error) {
	all := allRows()
	if names == "" {
		return all, nil
	}
	var some []row
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(r row) bool { return r.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("there is no row %q: want some of %s", name, strings.Join(rowNames(), ", "))
		}
		some = append(some, all[i])
	}
	return some, nil
}
