package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// maxColumns is how long a line may be, so that two files fit side by side
	// on a screen and a review shows each line as a whole.
	maxColumns = 119
	// tabColumns is what a tab counts for.
	tabColumns = 4
)

func TestLinesAreShort(t *testing.T) {
	for _, name := range sources(t) {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found, err := longLines(name, source)
		if err != nil {
			t.Error(err)
		}
		for _, line := range found {
			t.Errorf("%s: break it after a comma or an operator, or split its string", line)
		}
	}
}

// sources lists the Go files of the module, for whatever platform they are.
func sources(t *testing.T) []string {
	t.Helper()
	list := mustPackages(t)
	root := slices.IndexFunc(list, func(p goPackage) bool { return p.path() == "." })
	if root < 0 {
		t.Fatal("the module has no main package")
	}
	var names []string
	err := filepath.WalkDir(list[root].Dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			// The Go tool ignores these as well.
			if name != list[root].Dir && (base == "testdata" || strings.HasPrefix(base, ".") ||
				strings.HasPrefix(base, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(base, ".go") {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < len(list) {
		t.Fatalf("%d packages have %d files: are these all?", len(list), len(names))
	}
	return names
}

// longLines returns the lines of a file that are too long. What cannot be
// broken does not count: a raw string of several lines, the tag of a field and
// a URL in a comment. A generated file is as its generator makes it.
func longLines(name string, source []byte) ([]string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	lines := strings.Split(string(source), "\n")
	counted := slices.Clone(lines)
	leaveOut := func(from, to token.Pos) {
		first, last := fset.PositionFor(from, false), fset.PositionFor(to, false)
		for n := first.Line; n <= last.Line; n++ {
			line := lines[n-1]
			start, end := 0, len(line)
			if n == first.Line {
				start = first.Column - 1
			}
			if n == last.Line {
				end = last.Column - 1
			}
			counted[n-1] = strings.Replace(counted[n-1], line[start:end], "", 1)
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Field:
			if node.Tag != nil {
				leaveOut(node.Tag.Pos(), node.Tag.End())
			}
		case *ast.BasicLit:
			if strings.HasPrefix(node.Value, "`") && strings.Contains(node.Value, "\n") {
				leaveOut(node.Pos(), node.End())
			}
		}
		return true
	})
	for _, group := range file.Comments {
		for _, comment := range group.List {
			for word := range strings.FieldsSeq(comment.Text) {
				if strings.Contains(word, "://") {
					n := fset.PositionFor(comment.Pos(), false).Line
					counted[n-1] = strings.Replace(counted[n-1], word, "", 1)
				}
			}
		}
	}
	var found []string
	for i, line := range counted {
		if columns(line) > maxColumns {
			found = append(found, fmt.Sprintf("%s:%d has %d columns, more than %d", name, i+1, columns(lines[i]),
				maxColumns))
		}
	}
	return found, nil
}

// columns returns how wide a line is on a screen.
func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

// TestLongLinesAreFound makes sure that the check above can fail.
func TestLongLinesAreFound(t *testing.T) {
	long := strings.Repeat("x", maxColumns)
	for name, tc := range map[string]struct {
		source string
		want   []string
	}{
		"code": {"package x\n\nvar " + long + " int", []string{"x.go:3 has 127 columns, more than 119"}},
		"just too long": {"package x\n\nvar yä" + long[:110] + " int",
			[]string{"x.go:3 has 120 columns, more than 119"}},
		"tabs": {"package x\n\nfunc f() {\n\t" + long[:116] + "()\n}",
			[]string{"x.go:4 has 122 columns, more than 119"}},
		"comment": {"package x\n\n// " + long + "\nvar y int",
			[]string{"x.go:3 has 122 columns, more than 119"}},
		"string": {"package x\n\nvar y = \"" + long + "\"",
			[]string{"x.go:3 has 129 columns, more than 119"}},
		"raw string":      {"package x\n\nvar y = `" + long + "`", []string{"x.go:3 has 129 columns, more than 119"}},
		"after a string":  {"package x\n\nvar y = `\n` + " + long, []string{"x.go:4 has 123 columns, more than 119"}},
		"long enough":     {"package x\n\nvar y" + long[:110] + " int", nil},
		"several lines":   {"package x\n\nvar y = `a" + long + "\n" + long + "b\n` + z", nil},
		"tag of a field":  {"package x\n\ntype y struct {\n\tz int `json:\"" + long + "\"`\n}", nil},
		"URL in comments": {"package x\n\n// See https://example.com/" + long + ".\nvar y int", nil},
		"generated":       {"// Code generated by x. DO NOT EDIT.\n\npackage x\n\nvar " + long + " int", nil},
	} {
		got, err := longLines("x.go", []byte(tc.source))
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: found %q (%v), want %q", name, got, err, tc.want)
		}
	}
}
