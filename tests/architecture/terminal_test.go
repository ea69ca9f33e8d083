package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"testing"
)

// terminals are the files that may name the terminal of the process: those that give
// it to commands behind problem.Terminal, to tools of upstream or to the log, and
// programs in virtual machines.
var terminals = []string{"main.go", "cmd/app.go", "cmd/process/clients.go", "cmd/process/modes.go",
	"cmd/kubectl/kubectl.go", "internal/logging/setup.go", "agent/vm/network/network.go", "embedded/guest/main.go"}

// named finds the uses of names of a package in a file.
func named(file *ast.File, pkg string, names ...string) (found []ast.Node) {
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(names, s.Sel.Name) {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == pkg {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}

// TestTerminalsAreShownText: what commands print of objects, answers and errors goes
// through problem.Show and problem.Terminal, so that no terminal obeys it.
func TestTerminalsAreShownText(t *testing.T) {
	fset := token.NewFileSet()
	for _, p := range mustPackages(t) {
		if p.forTests() || within(p.path(), "scripts") {
			continue
		}
		for _, name := range p.GoFiles {
			at := path.Join(p.path(), name)
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			uses := append(named(file, "os", "Stdout", "Stderr"), named(file, "fmt", "Print", "Printf", "Println")...)
			for _, n := range uses {
				if !slices.Contains(terminals, at) {
					t.Errorf("%s names the terminal of the process: print to the writer of the command",
						fset.Position(n.Pos()))
				}
			}
			if p.path() != "cmd" && !within(p.path(), "cmd/tenantadmin") {
				continue
			}
			for _, n := range named(file, "fmt", "Fprintf") {
				t.Errorf("%s: problem.Show prints what others wrote, in one line and without what a terminal obeys",
					fset.Position(n.Pos()))
			}
		}
	}
}
