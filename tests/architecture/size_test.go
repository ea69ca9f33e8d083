package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// maxImports is how many packages of this module one package may import
	// directly, unless it is there to connect others.
	maxImports = 15
	// maxMethods is how many methods a type may have before it should be two.
	maxMethods = 25
	// maxFields is how many fields a type with methods may have: a method may use each of them.
	// What has fields alone, such as options, is a list and may be long.
	maxFields = 21
	// maxInternal is how many packages server and agent may have in common.
	maxInternal = 28
)

// wiring are the packages that connect others, and do little else.
var wiring = map[string]string{
	".":                "main chooses the program",
	"cmd/process":      "it makes one process of server and agent",
	"server":           "it makes the parts of a server, in order",
	"server/groups":    "it makes the parts of a service group",
	"server/partition": "it makes the parts of the partitions of a cluster",
	"server/tenancy":   "it puts tenancy into the seams of the API server",
	"server/addons":    "it makes the add-ons that are enabled",
	"agent":            "it makes the parts of a node, in order",
}

func TestPackagesImportFewOthers(t *testing.T) {
	for _, p := range mustPackages(t) {
		if _, ok := wiring[p.path()]; ok || p.forTests() {
			continue
		}
		var ours []string
		for _, i := range p.Imports {
			if within(i, module) {
				ours = append(ours, strings.TrimPrefix(i, module+"/"))
			}
		}
		if len(ours) > maxImports {
			t.Errorf("%s imports %d packages of this module, more than %d: it does more than one job, "+
				"or it is wiring that belongs in its caller\n%s",
				p.path(), len(ours), maxImports, strings.Join(ours, "\n"))
		}
	}
}

func TestInternalIsSmall(t *testing.T) {
	var list []string
	for _, p := range mustPackages(t) {
		if within(p.path(), "internal") {
			list = append(list, p.path())
		}
	}
	if len(list) > maxInternal {
		t.Errorf("internal has %d packages, more than %d: what only one of server, "+
			"agent and cmd needs belongs there\n%s", len(list), maxInternal, strings.Join(list, "\n"))
	}
}

// methods counts the methods of each type of a file.
func methods(file *ast.File) map[string]int {
	n := map[string]int{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil || len(f.Recv.List) == 0 {
			continue
		}
		e := f.Recv.List[0].Type
		if s, ok := e.(*ast.StarExpr); ok {
			e = s.X
		}
		switch x := e.(type) { // a generic type has its parameters behind its name
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		}
		if id, ok := e.(*ast.Ident); ok {
			n[id.Name]++
		}
	}
	return n
}

// fields counts the fields of each struct of a file.
func fields(file *ast.File) map[string]int {
	n := map[string]int{}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			typ, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if s, ok := typ.Type.(*ast.StructType); ok {
				n[typ.Name.Name] = s.Fields.NumFields()
			}
		}
	}
	return n
}

// lists are packages whose types have a field for each thing that there is.
var lists = map[string]string{"internal/config": "each field is a flag"}

func TestTypesHaveFewMethodsAndFields(t *testing.T) {
	fset := token.NewFileSet()
	for _, p := range mustPackages(t) {
		total, holds := map[string]int{}, map[string]int{}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil,
				parser.SkipObjectResolution|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if ast.IsGenerated(file) {
				continue
			}
			for typ, n := range methods(file) {
				total[typ] += n
			}
			maps.Copy(holds, fields(file))
		}
		for typ, n := range total {
			name := path.Join(p.path(), typ)
			if n > maxMethods {
				t.Errorf("%s has %d methods, more than %d: it knows too much; give its parts structs of their own",
					name, n, maxMethods)
			}
			if _, ok := lists[p.path()]; !ok && holds[typ] > maxFields {
				t.Errorf("%s has %d methods over %d fields, more than %d: group the fields that are used together",
					name, n, holds[typ], maxFields)
			}
		}
	}
}

// TestMethodsAreCounted makes sure that the check above can fail.
func TestMethodsAreCounted(t *testing.T) {
	var b strings.Builder
	b.WriteString("package x\ntype a struct{}\ntype g[K any, V any] struct{}\nfunc f() {}\n")
	for i := range maxMethods + 1 {
		fmt.Fprintf(&b, "func (*a) m%d() {}\nfunc (g[K, V]) m%d() {}\n", i, i)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", b.String(), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	n := methods(file)
	if n["a"] != maxMethods+1 || n["g"] != maxMethods+1 || len(n) != 2 {
		t.Errorf("counted %v", n)
	}
}

// TestFieldsAreCounted: names that share a type are each one, and so is what is embedded.
func TestFieldsAreCounted(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go",
		"package x\ntype (\na struct{ b, c int; d string; e }\ne struct{}\ng[K any] struct{ k K }\ni interface{}\n)\n",
		parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if n := fields(file); n["a"] != 4 || n["e"] != 0 || n["g"] != 1 || len(n) != 3 {
		t.Errorf("counted %v", n)
	}
}

// TestTheRootHasMainOnly keeps the root of the repository what it is.
func TestTheRootHasMainOnly(t *testing.T) {
	for _, p := range mustPackages(t) {
		if p.path() == "." && !slices.Equal(append(p.GoFiles, p.TestGoFiles...), []string{"main.go"}) {
			t.Errorf("the root has %q: what starts a program is in cmd/process, a command is in cmd",
				append(p.GoFiles, p.TestGoFiles...))
		}
	}
}
