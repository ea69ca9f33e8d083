package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// longest is how long an exception may be in force without another review.
const longest = 184 * 24 * time.Hour

type exception struct {
	ID       string `json:"id"`
	Reason   string `json:"reason"`
	Reviewed string `json:"reviewed"`
	Until    string `json:"until"`
}

// readExceptions returns the exceptions by ID. One that has run out is an
// error, because whoever wrote it wanted to be asked again.
func readExceptions(file string, now time.Time) (map[string]exception, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list struct {
		Exceptions []exception `json:"exceptions"`
	}
	if err := yaml.UnmarshalStrict(content, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	all := map[string]exception{}
	for _, e := range list.Exceptions {
		if err := e.check(now); err != nil {
			return nil, fmt.Errorf("%s: exception %q: %w", file, e.ID, err)
		}
		if _, twice := all[e.ID]; twice {
			return nil, fmt.Errorf("%s: exception %q is there twice", file, e.ID)
		}
		all[e.ID] = e
	}
	return all, nil
}

func (e exception) check(now time.Time) error {
	if e.ID == "" || strings.TrimSpace(e.Reason) == "" {
		return errors.New("it needs an id and a reason")
	}
	reviewed, err := time.Parse(time.DateOnly, e.Reviewed)
	if err != nil {
		return fmt.Errorf("reviewed: %w", err)
	}
	until, err := time.Parse(time.DateOnly, e.Until)
	if err != nil {
		return fmt.Errorf("until: %w", err)
	}
	switch {
	case reviewed.After(now):
		return fmt.Errorf("reviewed %s is in the future", e.Reviewed)
	case until.Sub(reviewed) > longest:
		return fmt.Errorf("until %s is more than half a year after the review", e.Until)
	case now.After(until.AddDate(0, 0, 1)):
		return fmt.Errorf("it ran out on %s: review it again", e.Until)
	}
	return nil
}

// judge reports what was found and returns an error if any of it is neither
// excepted nor harmless.
func judge(out io.Writer, found map[string]*vulnerability, exceptions map[string]exception) error {
	var problems []error
	for _, v := range slices.SortedFunc(maps.Values(found),
		func(a, b *vulnerability) int { return cmp.Compare(a.id, b.id) }) {
		e, excepted := exceptions[v.id]
		switch {
		case len(v.functions) == 0:
			fmt.Fprintf(out, "%s is in a module, not in a program: %s\n", v.id, v.summary)
		case excepted:
			fmt.Fprintf(out, "%s is excepted until %s: %s\n", v.id, e.Until, e.Reason)
		default:
			fixed := "there is no fixed version yet"
			if v.fixed != "" {
				fixed = "fixed in " + v.fixed
			}
			problems = append(problems, fmt.Errorf("%s: %s\n  in %s, %s\n  through %s", v.id, v.summary, v.module,
				fixed, strings.Join(v.functions, ", ")))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(exceptions)) {
		if v := found[id]; v == nil || len(v.functions) == 0 {
			problems = append(problems, fmt.Errorf("the exception for %s is not needed: take it out", id))
		}
	}
	if len(problems) == 0 {
		_, err := fmt.Fprintln(out, "No known vulnerability without an exception.")
		return err
	}
	return errors.Join(problems...)
}
