package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/a4s-io/a4s/scripts/gomod"
)

const usage = `usage: go run ./scripts/bump VERSION [MODULE@VERSION...]

VERSION is that of Kubernetes, as v1.37.2. The modules are others that are raised with it, as
go.etcd.io/etcd/server/v3@v3.7.3; make newest lists what there is`

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
		return errors.New("VERSION is missing\n" + usage)
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
	files, err := gomod.Files(ctx)
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
		mod, err := gomod.Read(ctx, file)
		if err != nil {
			return err
		}
		flags := r.edits(mod, met)
		if left := r.left(mod); file == "go.mod" && len(left) > 0 {
			if _, err := fmt.Fprintf(out, "pinned, but not required by Kubernetes %s (look for a new path): %s\n",
				args[0], strings.Join(left, " ")); err != nil {
				return err
			}
		}
		if len(flags) > 0 {
			changes = append(changes, change{file, flags})
		}
	}
	for module := range others {
		if !met[module] {
			return fmt.Errorf("%s: no go.mod of the sources requires it", module)
		}
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
	if err := alignAll(ctx, files, out); err != nil {
		return err
	}
	if err := build(ctx, out); err != nil {
		return fmt.Errorf("the modules are raised, but a4s does not build with them "+
			"(docs/developing/upgrading-kubernetes.md has the places that move): %w", err)
	}
	_, err = fmt.Fprintln(out, "done: go on with make test, as docs/developing/upgrading-kubernetes.md says")
	return err
}

// alignAll gives the modules of upstream's programs what a4s is made of: they are
// what it is compared with.
func alignAll(ctx context.Context, files []string, out io.Writer) error {
	first, err := gomod.Read(ctx, "go.mod")
	if err != nil {
		return err
	}
	for _, file := range files {
		// Tidying can bring in others that both require.
		for round := 0; file != "go.mod"; round++ {
			mod, err := gomod.Read(ctx, file)
			if err != nil {
				return err
			}
			if mod.Requires(gomod.Kubernetes) == "" {
				break
			}
			flags := align(mod, first)
			if len(flags) == 0 {
				break
			}
			if round == 5 {
				return fmt.Errorf("%s needs others than go.mod has: %s", file, strings.Join(flags, " "))
			}
			if _, err := fmt.Fprintf(out, "%s: %d versions of go.mod\n", file, len(flags)); err != nil {
				return err
			}
			if err := errors.Join(edit(ctx, file, flags), tidy(ctx, file)); err != nil {
				return err
			}
		}
	}
	return nil
}
