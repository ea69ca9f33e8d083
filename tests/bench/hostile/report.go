package main

import (
	"fmt"
	"io"
	"math"

	"github.com/a4s-io/a4s/tests/measure"
)

// The quantities of a row, times in milliseconds.
const (
	getAlone, getBeside     = "get alone", "get beside"
	podAlone, podBeside     = "pod of a ReplicaSet alone", "pod of a ReplicaSet beside"
	adminAlone, adminBeside = "administrator's get alone", "administrator's get beside"
	p50, p99                = ", p50", ", p99"

	failed   = "neighbour's errors"
	answered = "attacker's successful answers a second"
	refused  = "attacker's refusals a second"
	peak     = "most resident, MiB"
)

// report prints a line a row: medians of all rounds, the neighbour's p50 and p99.
func report(w io.Writer, all measure.Rounds, s *settings) error {
	of := func(quantity, name string) float64 { return all.Of(quantity, name).Median }
	pair := func(quantity, name string) string {
		return measure.Number(of(quantity+p50, name)) + ", " + measure.Number(of(quantity+p99, name))
	}
	ratio := func(beside, alone, name string) string {
		number := func(part string) string {
			return measure.Number(math.Round(10*of(beside+part, name)/of(alone+part, name)) / 10)
		}
		return number(p50) + ", " + number(p99)
	}
	if _, err := fmt.Fprintf(w, "Each %v alone and %v beside; p50, p99 in ms.\n\n"+
		"| row | get alone | get beside | ratio | pod of a ReplicaSet alone | beside | administrator alone | beside "+
		"| neighbour's errors | attacker: answers/s, refusals/s | most resident, MiB |\n"+
		"|---|---|---|---|---|---|---|---|---|---|---|\n", s.alone, s.beside); err != nil {
		return err
	}
	for _, r := range s.rows {
		if math.IsNaN(of(peak, r.name)) {
			continue // not yet measured
		}
		if _, err := fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s, %s | %s |\n", r.name,
			pair(getAlone, r.name), pair(getBeside, r.name), ratio(getBeside, getAlone, r.name),
			pair(podAlone, r.name), pair(podBeside, r.name),
			pair(adminAlone, r.name), pair(adminBeside, r.name), measure.Number(of(failed, r.name)),
			measure.Number(of(answered, r.name)), measure.Number(of(refused, r.name)),
			measure.Number(of(peak, r.name))); err != nil {
			return err
		}
	}
	return nil
}
