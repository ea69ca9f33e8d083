package architecture

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

// goMod is what a go.mod says of the versions of modules.
type goMod struct {
	Go      string
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func readGoMod(t *testing.T, path string) (goVersion string, versions map[string]string) {
	t.Helper()
	out, err := exec.Command("go", "mod", "edit", "-json", path).Output()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	var m goMod
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	versions = map[string]string{}
	for _, r := range m.Require {
		versions[r.Path] = r.Version
	}
	for _, r := range m.Replace {
		versions[r.Old.Path] = r.New.Path + " " + r.New.Version
	}
	return m.Go, versions
}

// TestUpstreamIsOfTheSameModules keeps the programs that a4s is compared with,
// and the conformance tests, what a4s is made of.
func TestUpstreamIsOfTheSameModules(t *testing.T) {
	root := filepath.Join("..", "..")
	goVersion, ours := readGoMod(t, filepath.Join(root, "go.mod"))
	for _, file := range []string{"tests/bench/upstream/programs/go.mod", "tests/conformance/suite/go.mod"} {
		theirGo, theirs := readGoMod(t, filepath.Join(root, filepath.FromSlash(file)))
		if goVersion != theirGo {
			t.Errorf("%s has Go %s, go.mod %s", file, theirGo, goVersion)
		}
		same := 0
		for path, version := range theirs {
			want, ok := ours[path]
			if !ok {
				continue // only upstream's programs need it
			}
			same++
			if version != want {
				t.Errorf("%s has %s %s, go.mod %s", file, path, version, want)
			}
		}
		if same < 150 {
			t.Errorf("only %d modules are in both %s and go.mod", same, file)
		}
	}
}
