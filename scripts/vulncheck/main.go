package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, time.Now())
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "vulncheck: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer, now time.Time) error {
	flags := flag.NewFlagSet("vulncheck", flag.ContinueOnError)
	file := flags.String("exceptions", "", "the `FILE` of reviewed exceptions")
	offlineOK := flags.Bool("offline-ok", false, "warn, and do not fail, if the database cannot be reached")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *file == "" || flags.NArg() == 0 {
		return errors.New("--exceptions and at least one program are needed")
	}
	exceptions, err := readExceptions(*file, now)
	if err != nil {
		return err
	}
	if err := reachable(ctx); err != nil {
		if !*offlineOK {
			return err
		}
		_, err = fmt.Fprintf(out, "NOT CHECKED for known vulnerabilities: %v\n", err)
		return err
	}
	scanner, err := scanner(ctx)
	if err != nil {
		return err
	}
	found := map[string]*vulnerability{}
	for _, program := range flags.Args() {
		if err := scan(ctx, scanner, program, found); err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
	}
	return judge(out, found, exceptions)
}
