package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/measure"
)

func main() { os.Exit(sides.Main("groups", run)) }

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
	ctx, cancel := context.WithCancel(ctx)
	c, err := newCluster(ctx, s, &sides.Maker{Lab: lab, Binary: s.binary, Programs: s.programs})
	if err != nil {
		cancel()
		return err
	}
	defer c.close()
	defer cancel() // nodes and watches end before the servers do
	if err := c.fill(ctx); err != nil {
		c.tell(ctx)
		return fmt.Errorf("filling the datastore: %w", err)
	}
	return sides.Rounds(s.rounds, filepath.Join(s.out, "groups.json"), s.layouts,
		func(l layout, round measure.Round) error {
			err := (&trial{cluster: c, layout: l, round: round}).run(ctx)
			if err != nil {
				c.tell(ctx)
			}
			return err
		}, func(all measure.Rounds) error { return report(all, s) })
}
