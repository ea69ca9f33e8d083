package health

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A line that a4s doctor prints, and one of the table by which a reader finds a runbook.
var (
	printed = regexp.MustCompile(`(?m)^(ERROR|WARNING) +([^:(]+?)(?: \(|:|$)`)
	sought  = regexp.MustCompile("(?m)^\\| `([A-Z][^`:]+)")
)

// TestRunbooksShowWhatIsPrinted: who looks for a message finds it in the runbooks as it is.
func TestRunbooksShowWhatIsPrinted(t *testing.T) {
	page, err := os.ReadFile("../../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	table := Conditions()
	find := func(title string) int {
		return slices.IndexFunc(table, func(c Condition) bool {
			before, _, _ := strings.Cut(c.Title, ":") // the page is read up to there
			return before == title
		})
	}
	lines := printed.FindAllStringSubmatch(string(page), -1)
	for _, m := range lines {
		if m[2] == "TITLE" {
			continue // how a line looks
		}
		switch i := find(m[2]); {
		case i < 0:
			t.Errorf("no condition is titled %q", m[2])
		case string(table[i].Severity) != strings.ToLower(m[1]):
			t.Errorf("%q is an %s and not an %s", m[2], table[i].Severity, m[1])
		}
	}
	titles := sought.FindAllStringSubmatch(string(page), -1)
	for _, m := range titles {
		if find(m[1]) < 0 {
			t.Errorf("no condition is titled %q", m[1])
		}
	}
	if len(lines) < 8 || len(titles) < 5 {
		t.Errorf("%d lines and %d titles were found", len(lines), len(titles))
	}
}
