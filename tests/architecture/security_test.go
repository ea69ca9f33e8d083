package architecture

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page of what tenants and nodes cannot do, and the sections of it in which each row
// of a table is a promise.
const securityPage = "docs/reference/security.md"

var (
	promises  = regexp.MustCompile(`(?m)^## (What is promised|What a stolen node.*|Defaults for strangers)$`)
	namedTest = regexp.MustCompile("`((?:Test|Benchmark)[A-Za-z0-9_]+)")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)\(`)
)

// TestPromisesHaveTests: a sentence about what others cannot do stays only while a test
// is named beside it that is there.
func TestPromisesHaveTests(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, securityPage))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, section := range promised(string(page)) {
		for _, row := range section {
			rows++
			if !namedTest.MatchString(row) {
				t.Errorf("%s promises without a test: %s", securityPage, row)
			}
		}
	}
	if rows < 10 {
		t.Errorf("%s has %d promises: are its sections called otherwise?", securityPage, rows)
	}
}

// TestNamedTestsAreThere: a test that a document names can be run.
func TestNamedTestsAreThere(t *testing.T) {
	root := filepath.Join("..", "..")
	there := testsOf(t, root)
	pages, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-co", "--exclude-standard",
		"*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	for page := range strings.FieldsSeq(string(pages)) {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedTest.FindAllStringSubmatch(string(text), -1) {
			if !there[m[1]] {
				t.Errorf("%s names the test %s, which is not there", page, m[1])
			}
		}
	}
}

// promised are the rows of the tables of the sections with promises, without the heads.
func promised(page string) [][]string {
	var out [][]string
	for _, at := range promises.FindAllStringIndex(page, -1) {
		section, _, _ := strings.Cut(page[at[1]:], "\n## ")
		var rows []string
		head := true
		for line := range strings.Lines(section) {
			line = strings.TrimSpace(line)
			switch {
			case !strings.HasPrefix(line, "|"):
				head = true
			case strings.HasPrefix(line, "|---"):
				head = false
			case !head:
				rows = append(rows, line)
			}
		}
		out = append(out, rows)
	}
	return out
}

// testsOf are the names of all tests and benchmarks of the tree.
func testsOf(t *testing.T, root string) map[string]bool {
	t.Helper()
	files, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-co", "--exclude-standard",
		"*_test.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for name := range strings.Lines(string(files)) {
		source, err := os.ReadFile(filepath.Join(root, strings.TrimSpace(name)))
		if err != nil {
			continue // deleted, and not yet committed
		}
		for _, m := range testFunc.FindAllSubmatch(source, -1) {
			there[string(m[1])] = true
		}
	}
	return there
}

func TestPromisesWithoutTestsAreFound(t *testing.T) {
	rows := promised("# x\n\n## What is promised\n\nx\n\n| a | b |\n|---|---|\n| one | `TestX` |\n| two | - |\n\n" +
		"## Who\n\n| a |\n|---|\n| three |\n")
	if len(rows) != 1 || len(rows[0]) != 2 || namedTest.MatchString(rows[0][1]) ||
		!namedTest.MatchString(rows[0][0]) {
		t.Errorf("%q", rows)
	}
}
