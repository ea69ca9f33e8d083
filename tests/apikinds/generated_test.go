package apikinds

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/code-generator/cmd/deepcopy-gen/args"
	"k8s.io/code-generator/cmd/deepcopy-gen/generators"
	"k8s.io/gengo/v2"
	"k8s.io/gengo/v2/generator"
)

const generated = "zz_generated.deepcopy.go"

// TestGeneratedCodeIsCurrent: `make generate` would write what is there.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	t.Parallel()
	packages := map[string]bool{}
	for _, typ := range kinds(t) {
		packages[typ.PkgPath()] = true
	}
	sources := map[string]string{} // by where the same is written for the test
	err := gengo.Execute(generators.NameSystems(), generators.DefaultNameSystem(),
		func(c *generator.Context) []generator.Target {
			targets := generators.GetTargets(c, &args.Args{OutputFile: generated})
			for _, target := range targets {
				to, dir := target.(*generator.SimpleTarget), t.TempDir()
				sources[dir], to.PkgDir = to.PkgDir, dir
			}
			return targets
		}, gengo.StdBuildTag, slices.Sorted(maps.Keys(packages)))
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) != len(packages) {
		t.Errorf("code is generated for %d packages, kinds are in %d: "+
			"each has the line // +k8s:deepcopy-gen=package in its doc.go", len(sources), len(packages))
	}
	for want, got := range sources {
		w, err := os.ReadFile(filepath.Join(want, generated))
		if err != nil {
			t.Fatal(err)
		}
		// Its second line is the name of the program.
		if g, err := os.ReadFile(filepath.Join(got, generated)); err != nil || !bytes.Equal(body(g), body(w)) {
			t.Errorf("%s is not what make generate writes (%v)", filepath.Join(got, generated), err)
		}
	}
}

// body is what follows the package clause.
func body(source []byte) []byte {
	_, body, _ := bytes.Cut(source, []byte("\npackage "))
	return body
}
