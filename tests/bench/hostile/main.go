package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/measure"
)

func main() { os.Exit(sides.Main("hostile", run)) }

// attackArg is the argument of a process that attacks.
const attackArg = "attack"

func run(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == attackArg {
		return attack(ctx, os.Stdin, os.Stdout)
	}
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
	return sides.Rounds(s.rounds, filepath.Join(s.out, "hostile.json"), s.rows,
		func(r row, round measure.Round) error {
			return (&trial{settings: s, row: r, round: round}).run(ctx, maker)
		},
		func(all measure.Rounds) error { return report(os.Stdout, all, s) })
}
