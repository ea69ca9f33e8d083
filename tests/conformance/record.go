package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// resultsHeading is that of the table which the runs write.
const resultsHeading = "## Results"

var errNoResults = errors.New("no table of results below the heading " + resultsHeading)

// record writes the results of all tests in a space into docs/reference/conformance.md.
func (r *runner) record(ctx context.Context, space string, sum summary) error {
	version, err := r.kubernetes(ctx)
	if err != nil {
		return err
	}
	path := filepath.Join(r.root, knownFile)
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	updated, err := withResult(string(page), []string{r.tests.name, space}, []string{
		version, time.Now().UTC().Format(time.DateOnly), fmt.Sprintf("%d of %d", sum.passed, sum.all),
		fmt.Sprint(sum.intended), fmt.Sprint(sum.skipped), fmt.Sprint(sum.failed),
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	// In the place of the page at once: a run that is ended here leaves it whole.
	if err := os.WriteFile(path+".new", []byte(updated), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// withResult returns the page with a row of the results, which its first cells name, in
// the place of the one that was there.
func withResult(page string, key, values []string) (string, error) {
	lines := strings.Split(page, "\n")
	at := slices.Index(lines, resultsHeading)
	if at < 0 {
		return "", errNoResults
	}
	row := func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |" }
	inTable := false
	for i := at + 1; i < len(lines); i++ {
		switch {
		case strings.HasPrefix(lines[i], row(key)):
			lines[i] = row(slices.Concat(key, values))
			return strings.Join(lines, "\n"), nil
		case strings.HasPrefix(lines[i], "|"):
			inTable = true
		case inTable:
			return strings.Join(slices.Insert(lines, i, row(slices.Concat(key, values))), "\n"), nil
		case strings.HasPrefix(lines[i], "#"):
			return "", errNoResults
		}
	}
	return "", errNoResults
}
