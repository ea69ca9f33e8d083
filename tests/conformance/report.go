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
const knownFile = "docs/conformance.md"

// readKnown reads the tables: below a heading that ends in the name of a space,
// rows of a reason and the name of a test in backquotes. What fails in a tenant
// fails in a restricted one as well.
func readKnown(path string) (map[string]map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	known := map[string]map[string]string{tenantSpace: {}, restrictedSpace: {}, systemSpace: {}}
	space := ""
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		line := scan.Text()
		if strings.HasPrefix(line, "#") {
			switch {
			case strings.HasSuffix(line, " in a tenant"):
				space = tenantSpace
			case strings.HasSuffix(line, " in a tenant with default settings"):
				space = restrictedSpace
			case strings.HasSuffix(line, " in the space of the system"):
				space = systemSpace
			default:
				space = ""
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
		known[space][strings.TrimSuffix(name, "`")] = strings.TrimSpace(cells[1])
	}
	maps.Copy(known[restrictedSpace], known[tenantSpace])
	return known, scan.Err()
}

// summarize returns what to print, and whether there is nothing in it that the
// table does not say.
func summarize(space string, results map[string]result, known map[string]string) (string, bool) {
	var passed, again, intended, skipped, failed, better []string
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
	var b strings.Builder
	for _, list := range []struct {
		title string
		names []string
	}{
		{"passed only alone, after they had failed beside others", again},
		{"skipped by themselves", skipped},
		{"do not apply, by intention", intended},
		{"passed although " + knownFile + " says that they do not apply", better},
		{"failed", failed},
	} {
		if len(list.names) > 0 {
			fmt.Fprintf(&b, "%s: %d %s:\n  %s\n", space, len(list.names), list.title, strings.Join(list.names, "\n  "))
		}
	}
	fmt.Fprintf(&b, "%s: %d of %d passed, %d do not apply, %d were skipped, %d failed\n",
		space, len(passed)+len(better), len(results), len(intended), len(skipped), len(failed))
	return b.String(), len(failed) == 0 && len(better) == 0
}
