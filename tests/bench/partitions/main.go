package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/measure"
)

func main() { os.Exit(sides.Main("partitions", run)) }

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
	maker := &sides.Maker{Lab: lab, Binary: s.binary}
	var done results
	if err := sides.Rounds(s.rounds, filepath.Join(s.out, "partitions.json"), s.layouts,
		func(l layout, round measure.Round) error {
			return newTrial(s, l, round).run(ctx, maker, (*trial).phases)
		}, func(all measure.Rounds) error {
			done.rounds = all
			return report(done, s)
		}); err != nil || len(s.growth) == 0 {
		return err
	}
	return sides.Rounds(1, filepath.Join(s.out, "partitions-growth.json"), []layout{{1}},
		func(l layout, round measure.Round) error {
			return newTrial(s, l, round).run(ctx, maker, (*trial).growing)
		}, func(all measure.Rounds) error {
			done.growth = all
			return report(done, s)
		})
}
