package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "newest: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		return errors.New("it takes no arguments: run it in the directory of the sources")
	}
	parts, err := pinned(ctx)
	if err != nil {
		return err
	}
	return print(out, parts, time.Now())
}

// part is something that is pinned.
type part struct {
	// Where is the file that pins it.
	Where, Name string
	Version     string
	Date        time.Time
	// Newest is Version if there is no newer one, and empty if nobody could say;
	// Why is the reason then.
	Newest     string
	NewestDate time.Time
	Why        string
}

func (p *part) isNewest() bool { return p.Newest == p.Version }

// days are those since a date, whole ones.
func days(since, now time.Time) string {
	if since.IsZero() {
		return "?"
	}
	return fmt.Sprint(int(now.Sub(since) / (24 * time.Hour)))
}

func date(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return t.UTC().Format(time.DateOnly)
}

// print writes the table: first what has waited longest, then what is current.
func print(out io.Writer, parts []part, now time.Time) error {
	slices.SortStableFunc(parts, func(a, b part) int {
		switch {
		case a.isNewest() != b.isNewest():
			if a.isNewest() {
				return 1
			}
			return -1
		case a.isNewest() || a.NewestDate.Equal(b.NewestDate):
			return strings.Compare(a.Where+a.Name, b.Where+b.Name)
		}
		return a.NewestDate.Compare(b.NewestDate)
	})
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PART\tPINNED IN\tVERSION\tDATE\tAGE\tNEWEST\tDATE\tWAITS") //nolint:errcheck // Flush says it
	behind := 0
	var unknown []part
	for _, p := range parts {
		newest, published, waits := "-", "-", "-"
		switch {
		case p.Newest == "":
			newest = "?"
			unknown = append(unknown, p)
		case !p.isNewest():
			newest, published, waits = p.Newest, date(p.NewestDate), days(p.NewestDate, now)
			behind++
		}
		// Flush says it
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.Where, p.Version, date(p.Date), //nolint:errcheck
			days(p.Date, now), newest, published, waits)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%d of %d parts have a newer version. Ages are days.\n", behind,
		len(parts)); err != nil {
		return err
	}
	var errs []error
	for _, p := range unknown {
		errs = append(errs, fmt.Errorf("the newest %s is not known: %s", p.Name, p.Why))
	}
	return errors.Join(errs...)
}
