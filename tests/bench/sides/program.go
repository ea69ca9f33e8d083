package sides

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/measure"
)

// Main runs a benchmark that is a program, with the arguments of the command line, until it
// ends or is told to. It says what failed and returns the exit code.
func Main(name string, run func(ctx context.Context, args []string) error) int {
	hosts.Init()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// Rounds measures all sides in each of so many rounds, and begins each round with another
// side. What was measured is kept in a file, which is begun anew, and reported after each
// round, also of a round in which one failed: it took long to measure, too.
func Rounds[S fmt.Stringer](
	n int, file string, all []S, one func(side S, round measure.Round) error, report func(measure.Rounds) error,
) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for i := range n {
		round, failed := measure.Round{}, error(nil)
		for _, side := range InTurn(i, all) {
			log.Printf("round %d of %d: %s", i+1, n, side)
			if err := one(side, round); err != nil {
				failed = fmt.Errorf("round %d, %s: %w", i+1, side, err)
				break
			}
		}
		rounds, err := measure.Append(file, round)
		if err == nil {
			err = report(rounds)
		}
		if err := errors.Join(failed, err); err != nil {
			return err
		}
	}
	return nil
}

// InTurn begins with another side in each round.
func InTurn[S any](round int, all []S) []S {
	first := round % len(all)
	return slices.Concat(all[first:], all[:first])
}
