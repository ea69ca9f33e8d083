package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// knownFile has, for each space, a table of the tests that are expected to fail
// there and why: what is documented is what is checked.
const knownFile = "docs/reference/conformance.md"

// readKnown reads the tables, by the name of the tests and by space: below a heading
// that ends in the name of a space, and begins with Other for those beyond conformance,
// rows of a reason and the name of a test in backquotes. What fails in a tenant fails in
// a restricted one as well.
func readKnown(path string) (map[string]map[string]map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	known := map[string]map[string]map[string]string{}
	for _, tests := range []string{conformanceName, otherName} {
		known[tests] = map[string]map[string]string{tenantSpace: {}, restrictedSpace: {}, systemSpace: {}}
	}
	tests, space := "", ""
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		line := scan.Text()
		if strings.HasPrefix(line, "#") {
			tests, space = conformanceName, spaceOf(line)
			if strings.HasPrefix(strings.TrimLeft(line, "# "), "Other ") {
				tests = otherName
			}
		}
		cells := strings.Split(line, "|")
		if space == "" || len(cells) != 4 {
			continue
		}
		name, quoted := strings.CutPrefix(strings.TrimSpace(cells[2]), "`")
		if !quoted {
			continue // the head of the table
		}
		known[tests][space][strings.TrimSuffix(name, "`")] = strings.TrimSpace(cells[1])
	}
	for _, of := range known {
		maps.Copy(of[restrictedSpace], of[tenantSpace])
	}
	return known, scan.Err()
}

// spaceOf is the space whose tests a heading is about, "" if it is about none.
func spaceOf(heading string) string {
	switch {
	case strings.HasSuffix(heading, " in a tenant"):
		return tenantSpace
	case strings.HasSuffix(heading, " in a tenant with default settings"):
		return restrictedSpace
	case strings.HasSuffix(heading, " in the space of the system"):
		return systemSpace
	}
	return ""
}

// summary is what became of the tests in a space.
type summary struct {
	// text is what to print.
	text string
	// asListed says that there is nothing in it that the tables do not say.
	asListed bool
	// How many there are of each kind. The passed ones include those that a table lists.
	all, passed, intended, skipped, failed int
}

// summarize compares the results with the table. If all tests ran, one that is listed
// and was not among them has another name by now.
func summarize(space string, results map[string]result, known map[string]string, all bool) summary {
	var passed, again, intended, skipped, failed, better, gone []string
	for _, name := range slices.Sorted(maps.Keys(results)) {
		r := results[name]
		why, listed := known[name]
		first, _, _ := strings.Cut(r.Message, "\n")
		switch {
		case r.State == "passed" && listed:
			better = append(better, name)
		case r.State == "passed":
			passed = append(passed, name)
		case listed:
			intended = append(intended, name+": "+why)
		case r.State == "skipped":
			skipped = append(skipped, name+": "+first)
		default:
			failed = append(failed, name+": "+r.State+": "+first)
		}
		if r.State == "passed" && r.Again {
			again = append(again, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, ran := results[name]; all && !ran {
			gone = append(gone, name)
		}
	}
	var b strings.Builder
	for _, list := range []struct {
		title string
		names []string
	}{
		{"passed only alone, after they had failed beside others", again},
		{"skipped by themselves", skipped},
		{"do not apply, by intention", intended},
		{"passed although " + knownFile + " says that they do not apply", better},
		{"are in " + knownFile + " and are no tests", gone},
		{"failed", failed},
	} {
		if len(list.names) > 0 {
			fmt.Fprintf(&b, "%s: %d %s:\n  %s\n", space, len(list.names), list.title, strings.Join(list.names, "\n  "))
		}
	}
	fmt.Fprintf(&b, "%s: %d of %d passed, %d do not apply, %d were skipped, %d failed\n",
		space, len(passed)+len(better), len(results), len(intended), len(skipped), len(failed))
	return summary{
		text: b.String(), asListed: len(failed) == 0 && len(better) == 0 && len(gone) == 0,
		all: len(results), passed: len(passed) + len(better), intended: len(intended), skipped: len(skipped),
		failed: len(failed),
	}
}
