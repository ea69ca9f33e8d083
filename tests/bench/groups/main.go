package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/a4s-io/a4s/tests/bench/sides"
	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/measure"
)

func main() {
	hosts.Init()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "groups:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	klog.LogToStderr(false)
	klog.SetOutput(discard{})
	s, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	lab, err := hosts.NewLab()
	if err != nil {
		return err
	}
	defer lab.Close()
	results := filepath.Join(s.out, "groups.json")
	if err := os.Remove(results); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
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
	for n := range s.rounds {
		round, failed := measure.Round{}, error(nil)
		for _, l := range inTurn(n, s.layouts) {
			log.Printf("round %d of %d: %s", n+1, s.rounds, l)
			if err := (&trial{cluster: c, layout: l, round: round}).run(ctx); err != nil {
				c.tell(ctx)
				failed = fmt.Errorf("round %d, %s: %w", n+1, l, err)
				break
			}
		}
		// What a round has that failed took long to measure, too.
		rounds, err := measure.Append(results, round)
		if err == nil {
			err = report(rounds, s)
		}
		if err := errors.Join(failed, err); err != nil {
			return err
		}
	}
	return nil
}

// inTurn begins with another layout in each round.
func inTurn(round int, all []layout) []layout {
	first := round % len(all)
	return slices.Concat(all[first:], all[:first])
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
