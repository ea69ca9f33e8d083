package health

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A line that a4s doctor prints, and one of the table by which a reader finds a runbook.
var (
	printed = regexp.MustCompile(`(?m)^(ERROR|WARNING) +([^:(]+?)(?: \(|:|$)`)
	sought  = regexp.MustCompile("(?m)^\\| `([A-Z][^`:]+)")
)

// TestRunbooksShowWhatIsPrinted: who looks for a message finds it in the runbooks as it is.
func TestRunbooksShowWhatIsPrinted(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/runbooks.md")
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

// TestOperationsPageHasTheTable: the page of operations has every condition, with its
// severity and the time after which it is shown.
func TestOperationsPageHasTheTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, code := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(cells[0], -1) {
			written[code[1]] = cells[1] + ", " + strings.TrimRight(cells[2], " |\n")
		}
	}
	for _, c := range Conditions() {
		code, after := string(c.Code), "at once"
		switch d := c.TimeToVisible; {
		case d >= time.Minute:
			after = strings.TrimSuffix(d.String(), "m0s") + " min"
		case d > 0:
			after = strings.TrimSuffix(d.String(), "s") + " s"
		}
		if want := string(c.Severity) + ", " + after; written[code] != want {
			t.Errorf("docs/operate/operations.md says of %s %q, want %q", code, written[code], want)
		}
	}
}
