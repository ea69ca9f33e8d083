package architecture

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxLines is how long a source file may be before it should be two.
const maxLines = 600

func TestFilesAreShort(t *testing.T) {
	for _, p := range mustPackages(t) {
		for _, name := range p.GoFiles {
			if strings.HasPrefix(name, "zz_generated.") {
				continue // nobody splits what a program writes
			}
			data, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(data, []byte("\n// Code generated ")) {
				continue // nobody reads it, and its types say how long it is
			}
			if n := bytes.Count(data, []byte("\n")); n > maxLines {
				t.Errorf("%s has %d lines, more than %d: split it by what its parts do",
					path.Join(p.path(), name), n, maxLines)
			}
		}
	}
}

// exits returns the places in a file that end the process.
func exits(fset *token.FileSet, file *ast.File) []string {
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := ""
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			if fun.Name == "panic" {
				name = fun.Name
			}
		case *ast.SelectorExpr:
			x, _ := fun.X.(*ast.Ident)
			switch fun.Sel.Name {
			case "Exit":
				if x != nil && (x.Name == "os" || x.Name == "syscall" || x.Name == "logrus" || x.Name == "klog") {
					name = x.Name + ".Exit"
				}
			case "Fatal", "Fatalf", "Fatalln", "FatalDepth", "Panic", "Panicf", "Panicln":
				name = fun.Sel.Name
			}
		}
		if name != "" {
			found = append(found, fset.Position(call.Pos()).String()+": "+name)
		}
		return true
	})
	return found
}

func TestOnlyMainEndsTheProcess(t *testing.T) {
	fset := token.NewFileSet()
	for _, p := range mustPackages(t) {
		// A package for tests uses their Fatal, which only ends the test.
		if p.Name == "main" || p.forTests() {
			continue
		}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range exits(fset, file) {
				t.Errorf("%s: return an error instead; a part that ends the process takes all others with it", e)
			}
		}
	}
}

// TestExitsAreFound makes sure that the check above can fail.
func TestExitsAreFound(t *testing.T) {
	const source = `package x
func f() {
	panic("1")
	os.Exit(2)
	log.Fatalf("3")
	logger.WithField("a", 1).Fatal("4")
	recover(); cli.Exit("", 1); t.Error()
}`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "x.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := exits(fset, file)
	want := []string{"x.go:3:2: panic", "x.go:4:2: os.Exit", "x.go:5:2: Fatalf", "x.go:6:2: Fatal"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// deathSignals are the files that may have the kernel kill a program with its parent. Each keeps the thread that
// started the program: the kernel kills it with that thread, not with the process.
var deathSignals = []string{"agent/host/child/child.go", "server/addons/charts/confined/process.go",
	"tests/process/process.go", "tests/vmpods/main_test.go"}

func TestDeathSignalsAreOfThreadsThatStay(t *testing.T) {
	var found []string
	for _, p := range mustPackages(t) {
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles) {
			data, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if at := path.Join(p.path(), name); bytes.Contains(data, []byte("Pdeathsig"+":")) ||
				bytes.Contains(data, []byte("Pdeathsig"+" =")) {
				found = append(found, at)
			}
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, deathSignals) {
		t.Errorf("programs are killed with their parents in %q, not in %q alone: start them by tests/process",
			found, deathSignals)
	}
}

// TestOnePackageRegistersTransports: what a kubeconfig can name is in a registry of the whole
// process, without an end, so one package is enough to know who wraps whose transports.
func TestOnePackageRegistersTransports(t *testing.T) {
	onlyIn(t, "agent/cluster/clientfile", "RegisterAuthProviderPlugin", "registers a transport for kubeconfigs")
}

// TestOnePackageReadsCommandLines: a process chooses its command line, and can make it terabytes.
func TestOnePackageReadsCommandLines(t *testing.T) {
	onlyIn(t, "internal/instance", "cmdline", "reads a command line")
}

// onlyIn reports whoever else has a word, but for the packages of tests.
func onlyIn(t *testing.T, allowed, word, does string) {
	t.Helper()
	found := false
	for _, p := range mustPackages(t) {
		if strings.HasPrefix(p.path(), "tests/") {
			continue
		}
		for _, name := range p.GoFiles {
			data, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(data, []byte(word)) {
				continue
			}
			if found = true; p.path() != allowed {
				t.Errorf("%s %s: ask %s to", path.Join(p.path(), name), does, allowed)
			}
		}
	}
	if !found {
		t.Errorf("nobody %s: this test looks for the wrong name", does)
	}
}

// TestNoRegistryHosts keeps the addresses of package registries out of the
// repository: which mirror to use is the choice of the machine that builds.
func TestNoRegistryHosts(t *testing.T) {
	root := ""
	for _, p := range mustPackages(t) {
		if p.path() == "tests/architecture" {
			root = filepath.Join(p.Dir, "..", "..")
		}
	}
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("this is not a git checkout: %v", err)
	}
	// Put together here, so that this file does not hold them.
	hosts := []string{
		"proxy.golang" + ".org", "sum.golang" + ".org", "goproxy" + ".io", "goproxy" + ".cn",
		"deb.debian" + ".org", "security.debian" + ".org", "registry.npmjs" + ".org",
		"files.pythonhosted" + ".org", "pypi" + ".org", "static.crates" + ".io",
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // removed, and not committed yet
		}
		for _, host := range hosts {
			if bytes.Contains(data, []byte(host)) {
				t.Errorf("%s names %s", name, host)
			}
		}
	}
}
