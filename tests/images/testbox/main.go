package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// command is one subcommand of testbox.
type command struct {
	args string
	run  func(ctx context.Context, out io.Writer, args []string) error
}

func commands() map[string]command {
	return map[string]command{
		"serve": {"[ADDR [TLSADDR]]", serve},
		"get":   {"URL", one(get)},
		"dns":   {"NAME [TYPE]", dns},
		"api":   {"", api},
		"cat":   {"FILE", one(cat)},
		"echo":  {"WORD...", echo},
		"copy":  {"", copyInput},
		"eat":   {"MIB", one(eat)},
		"sleep": {"", sleep},
		"crash": {"[MESSAGE]", crash},
		// Datagrams, as a hostile pod makes them up.
		"send":   {"ADDR HEX", send},
		"listen": {"ADDR", listen},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testbox:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	all := commands()
	if len(args) > 0 {
		if c, ok := all[args[0]]; ok {
			return c.run(ctx, out, args[1:])
		}
	}
	var names []string
	for name, c := range all {
		names = append(names, strings.TrimSpace(name+" "+c.args))
	}
	slices.Sort(names)
	return fmt.Errorf("usage: testbox COMMAND, one of:\n  %s", strings.Join(names, "\n  "))
}

// one adapts a command of exactly one argument that returns its output.
func one(f func(ctx context.Context, arg string) (string, error)) func(context.Context, io.Writer, []string) error {
	return func(ctx context.Context, out io.Writer, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("want one argument, got %d", len(args))
		}
		text, err := f(ctx, args[0])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, text)
		return err
	}
}

func cat(_ context.Context, path string) (string, error) {
	b, err := os.ReadFile(path)
	return string(b), err
}

func echo(_ context.Context, out io.Writer, args []string) error {
	_, err := fmt.Fprintln(out, strings.Join(args, " "))
	return err
}

func copyInput(_ context.Context, out io.Writer, _ []string) error {
	_, err := io.Copy(out, os.Stdin)
	return err
}

// eat takes memory and touches each page of it, then waits.
func eat(ctx context.Context, arg string) (string, error) {
	mib, err := strconv.Atoi(arg)
	if err != nil {
		return "", fmt.Errorf("MIB: %w", err)
	}
	var held [][]byte
	for range mib {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		held = append(held, b)
	}
	<-ctx.Done()
	return fmt.Sprintf("ate %d MiB", len(held)), nil
}

func sleep(ctx context.Context, _ io.Writer, _ []string) error {
	<-ctx.Done()
	return nil
}

func crash(_ context.Context, _ io.Writer, args []string) error {
	if len(args) > 0 {
		return errors.New(strings.Join(args, " "))
	}
	return errors.New("crashed as asked")
}
