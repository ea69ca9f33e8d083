package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: go run ./scripts/bump VERSION [MODULE@VERSION...]

VERSION is that of Kubernetes, as v1.37.2. The modules are others that are raised with it, as
go.etcd.io/etcd/server/v3@v3.7.3; make newest lists what there is.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bump: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	staging, err := stagingVersion(args[0])
	if err != nil {
		return fmt.Errorf("%w\n%s", err, usage)
	}
	others, err := parseModules(args[1:])
	if err != nil {
		return fmt.Errorf("%w\n%s", err, usage)
	}
	upstream, err := upstreamModule(ctx, args[0])
	if err != nil {
		return err
	}
	r := raise{kubernetes: args[0], staging: staging, upstream: upstream, others: others}
	files, err := moduleFiles(ctx)
	if err != nil {
		return err
	}
	type change struct {
		file  string
		flags []string
	}
	var changes []change
	met := map[string]bool{}
	for _, file := range files {
		mod, err := readModule(ctx, file)
		if err != nil {
			return err
		}
		flags := r.edits(mod, met)
		if len(flags) > 0 {
			changes = append(changes, change{file, flags})
		}
	}
	for module := range others {
		if !met[module] {
			return fmt.Errorf("%s: no go.mod of the sources requires it", module)
		}
	}
	if len(changes) == 0 {
		_, err := fmt.Fprintf(out, "everything is at Kubernetes %s already\n", args[0])
		return err
	}
	for _, c := range changes {
		if _, err := fmt.Fprintf(out, "%s: %d changes\n", c.file, len(c.flags)); err != nil {
			return err
		}
		if err := edit(ctx, c.file, c.flags); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if _, err := fmt.Fprintf(out, "tidying %s\n", c.file); err != nil {
			return err
		}
		if err := tidy(ctx, c.file); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(out, "done: look at what git diff says, then make build")
	return err
}
