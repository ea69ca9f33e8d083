package architecture

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// pages are the documents of the module, by their paths in it.
func pages(t *testing.T) (root string, names []string) {
	t.Helper()
	list := mustPackages(t)
	for _, p := range list {
		if p.path() == "." {
			root = p.Dir
		}
	}
	if root == "" {
		t.Fatal("the module has no main package")
	}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch base := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && name != root && (base == "testdata" || base == "bin" || base == "dist" ||
			strings.HasPrefix(base, ".")):
			return fs.SkipDir
		case !entry.IsDir() && strings.HasSuffix(base, ".md"):
			rel, err := filepath.Rel(root, name)
			names = append(names, rel)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(names, "docs/README.md") || !slices.Contains(names, "README.md") {
		t.Fatalf("%d documents were found, and not all of them", len(names))
	}
	return root, names
}

var (
	// link is one in a line: what is shown, and where it leads.
	link = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
	// decision is what a link to one is called, and decisionFile its file.
	decision     = regexp.MustCompile(`^(?:(?:decisions?|ADR)\s+)?(\d+)$`)
	decisionFile = regexp.MustCompile(`(?:^|/)(\d{4})-[^/]*\.md$`)
	// quoted is code in a line. What it shows is not followed.
	quoted  = regexp.MustCompile("`[^`]*`")
	heading = regexp.MustCompile(`(?m)^#+ +(.*?) *$`)
)

// prose is a document without the blocks of code, whose lines are empty.
func prose(text []byte) []string {
	lines, code := strings.Split(string(text), "\n"), false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			code = !code
		}
		if fence || code {
			lines[i] = ""
		}
	}
	return lines
}

// anchors are what links to places in a document are called.
func anchors(text []byte) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(strings.Join(prose(text), "\n"), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, link.ReplaceAllStringFunc(m[1], func(l string) string { return l[1:strings.Index(l, "]")] }))
		for again, next := 1, name; ; again++ {
			if !found[next] {
				found[next] = true
				break
			}
			next = fmt.Sprint(name, "-", again)
		}
	}
	return found
}

// deadLinks are the links of a document that lead nowhere within the module, or to another
// decision than they are called by, with what is wrong.
func deadLinks(root, name string, text []byte) (dead []string) {
	// A link can begin on one line and end on the next one.
	whole := quoted.ReplaceAllString(strings.Join(prose(text), "\n"), "")
	for _, m := range link.FindAllStringSubmatch(whole, -1) {
		target, err := url.Parse(m[2])
		if err == nil && target.Scheme != "" {
			continue
		}
		to := text
		if err == nil && target.Path != "" {
			place := filepath.Join(root, filepath.Dir(name), target.Path)
			var info fs.FileInfo
			if info, err = os.Stat(place); err == nil && !info.IsDir() {
				to, err = os.ReadFile(place)
			}
		}
		if err == nil && target.Fragment != "" && (target.Path == "" || strings.HasSuffix(target.Path, ".md")) &&
			!anchors(to)[target.Fragment] {
			err = fmt.Errorf("it has no heading #%s", target.Fragment)
		}
		if err == nil {
			err = checkDecision(m[1], target.Path)
		}
		if err != nil {
			dead = append(dead, fmt.Sprintf("%s is wrong: %v", m[2], err))
		}
	}
	return dead
}

// checkDecision fails if a link that is called by a number leads to a decision of another one.
func checkDecision(called, file string) error {
	number, leads := decision.FindStringSubmatch(called), decisionFile.FindStringSubmatch(file)
	if number == nil || leads == nil || strings.TrimLeft(number[1], "0") == strings.TrimLeft(leads[1], "0") {
		return nil
	}
	return fmt.Errorf("decision %s is called %s", leads[1], number[1])
}

func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	root, names := pages(t)
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range deadLinks(root, name, text) {
			t.Errorf("%s: the link to %s", name, l)
		}
	}
}

// TestDeadLinksAreFound makes sure that the check above can fail.
func TestDeadLinksAreFound(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "other.md"), []byte("# One `two`, three\n\n# One two three\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "0008-x.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		"[a](other.md), [b](other.md#one-two-three) and [c](https://example.com/x.md#y)": nil,
		"[the second](other.md#one-two-three-1)":                                         nil,
		"[a](gone.md), [on\ntwo lines](../gone.md)":                                      {"gone.md", "../gone.md"},
		"[decision 7](0008-x.md), [ADR 8](0008-x.md), [a decision](0008-x.md)":           {"0008-x.md"},
		"[7](0008-x.md), [8](0008-x.md)":                                                 {"0008-x.md"},
		"[a](other.md#two)":                                                              {"other.md#two"},
		"# Here\n\n[a](#here) [b](#there)":                                               {"#there"},
		"`[a](gone.md)`\n```\n[b](gone.md)\n```\n":                                       nil,
	} {
		got := deadLinks(root, "page.md", []byte(text))
		for i := range got {
			got[i], _, _ = strings.Cut(got[i], " ")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: the dead links are %q, want %q", text, got, want)
		}
	}
}

// unwrapped are the documents whose lines are still to be wrapped, or are not to be.
func unwrapped() map[string]string {
	return map[string]string{
		"CHANGELOG.md":                  "still to be",
		"docs/reference/security.md":    "still to be",
		"docs/reference/conformance.md": "its lists are read by tests/conformance line by line",
	}
}

var (
	// target is where a link leads. It cannot be broken.
	target = regexp.MustCompile(`\]\([^)\s]+\)`)
	// unbroken is a line of code, or a comment for a test.
	unbroken = regexp.MustCompile("^(?:[^`]?`[^`]*`\\W*|<!--.*-->|    .*)$")
)

// longProse are the numbers of the lines of a document that are too long, without where links
// lead. Tables, headings and code do not count.
func longProse(text []byte) (found []int) {
	for i, line := range prose(text) {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "|") || strings.HasPrefix(trimmed, "#") || unbroken.MatchString(line) {
			continue
		}
		if columns(target.ReplaceAllString(line, "]")) > maxColumns {
			found = append(found, i+1)
		}
	}
	return found
}

func TestLinesOfDocumentsAreShort(t *testing.T) {
	root, names := pages(t)
	for name := range unwrapped() {
		if !slices.Contains(names, name) {
			t.Errorf("%s is no document, and excepted all the same", name)
		}
	}
	for _, name := range names {
		if unwrapped()[name] != "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if long := longProse(text); len(long) > 0 {
			t.Errorf("%s: lines %v have more than %d columns: break them", name, long, maxColumns)
		}
	}
}

// TestLongProseIsFound makes sure that the check above can fail.
func TestLongProseIsFound(t *testing.T) {
	long := strings.Repeat("x", maxColumns)
	for text, want := range map[string][]int{
		long:                                     nil,
		"\n" + long + " y":                       {2},
		"| " + long + " |":                       nil,
		"# " + long:                              nil,
		"[x](" + long + ") y":                    nil,
		"[" + long + "](y)":                      {1},
		"`" + long + "`.":                        nil,
		"a `" + long + "`":                       {1},
		"```\n" + long + "y\n```\n" + long + "z": {4},
	} {
		if got := longProse([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%.20q: lines %v are too long, want %v", text, got, want)
		}
	}
}

// TestEveryPageIsListed: a page that no index names is not found. Decisions have one of their own,
// and numbers without gaps.
func TestEveryPageIsListed(t *testing.T) {
	const decisions = "docs/developing/adr/"
	root, names := pages(t)
	listed := map[string]bool{"docs/README.md": true}
	for _, index := range []string{"docs/README.md", decisions + "README.md"} {
		text, err := os.ReadFile(filepath.Join(root, index))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(strings.Join(prose(text), "\n"), -1) {
			file, _, _ := strings.Cut(m[2], "#")
			listed[filepath.Join(filepath.Dir(index), file)] = true
		}
	}
	number := 0
	for _, name := range names {
		if strings.HasPrefix(name, "docs/") && !listed[name] {
			t.Errorf("no index lists %s", name)
		}
		file, ok := strings.CutPrefix(name, decisions)
		if !ok || file == "README.md" || file == "template.md" {
			continue
		}
		if number++; !strings.HasPrefix(file, fmt.Sprintf("%04d-", number)) {
			t.Errorf("%s has not the number %d", name, number)
		}
	}
}

// TestReadmeCostsWhatWasMeasured: the README repeats three numbers of the benchmarks. They
// are changed there, and here with them.
func TestReadmeCostsWhatWasMeasured(t *testing.T) {
	root, _ := pages(t)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, section, found := strings.Cut(read("docs/developing/benchmarks.md"), "\n## What a server and a tenant take\n")
	section, _, _ = strings.Cut(section, "\n## ")
	readme := strings.Join(strings.Fields(read("README.md")), " ")
	for _, row := range []string{"an idle server with its node", "a tenant that nobody has used",
		"an idle tenant that has been used"} {
		_, line, ok := strings.Cut(section, "\n| "+row)
		cells := strings.Split(line, " | ")
		if !found || !ok || len(cells) < 3 {
			t.Errorf("docs/developing/benchmarks.md has no row %q", row)
			continue
		}
		if want := row + " " + cells[1]; !strings.Contains(readme, want) {
			t.Errorf("the README does not say %q, which docs/developing/benchmarks.md does", want)
		}
	}
}
