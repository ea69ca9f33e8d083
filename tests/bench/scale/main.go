package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/measure"
)

func main() { os.Exit(sides.Main("scale", run)) }

func run(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	lab, err := hosts.NewLab()
	if err != nil {
		return err
	}
	defer lab.Close()
	maker := &sides.Maker{Lab: lab, Binary: s.binary, Programs: s.programs}
	return sides.Rounds(s.rounds, filepath.Join(s.out, "scale.json"), s.runs(),
		func(r sized, round measure.Round) error {
			return newTrial(r.settings, r.contestant, round).run(ctx, maker)
		}, func(all measure.Rounds) error { return report(all, s) })
}
