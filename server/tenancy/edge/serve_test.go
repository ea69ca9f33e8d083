package edge

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestStepsAreListed: the steps that serve.go takes are those of the list in doc.go, in its order,
// and each says what comes in and what goes out.
func TestStepsAreListed(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files, steps := token.NewFileSet(), map[string]string{} // by the function: the file
	var list *ast.File
	doc := ""
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		switch name {
		case "serve.go":
			list = file
		case "doc.go":
			doc = file.Doc.Text()
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			says := strings.Join(strings.Fields(f.Doc.Text()), " ")
			if !strings.Contains(says, " step") {
				continue
			}
			if !strings.Contains(says, "Comes in:") || !strings.Contains(says, "Goes out:") {
				t.Errorf("%s: %s is a step: say what comes in and what goes out", name, f.Name.Name)
			}
			steps[f.Name.Name] = name
		}
	}
	taken := map[string]token.Pos{} // where a step has been taken for the last time
	ast.Inspect(list, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := ""
		switch f := call.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
		}
		if steps[name] != "" {
			taken[name] = max(taken[name], call.End())
		}
		return true
	})
	got := []string{"request.go"} // which Handler takes, before the request may be refused
	for _, name := range slices.SortedFunc(maps.Keys(taken), func(a, b string) int {
		return cmp.Compare(taken[a], taken[b])
	}) {
		got = append(got, steps[name])
	}
	got = slices.Compact(got)
	var want []string
	for _, row := range regexp.MustCompile(`(?m)^\t([a-z]+\.go) `).FindAllStringSubmatch(doc, -1) {
		if want = append(want, row[1]); row[1] == "handon.go" {
			break // what follows is called while the answer is written
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the steps are in\n%q, and doc.go lists\n%q", got, want)
	}
}
