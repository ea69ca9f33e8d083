package apikinds

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGeneratedCodeIsCurrent: `make generate` would write what is there.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	t.Parallel()
	const generated = "zz_generated.deepcopy.go"
	const now = generated + ".now" // in the same place, and nothing to the Go tool
	seen := map[string]bool{}
	list := []string{"list", "-f", "{{.Dir}}"}
	args := []string{"tool", "deepcopy-gen", "--output-file", now}
	for _, typ := range kinds(t) {
		if p := typ.PkgPath(); !seen[p] {
			seen[p], list, args = true, append(list, p), append(args, p)
		}
	}
	out, err := exec.Command("go", list...).Output()
	if err != nil {
		t.Fatal(err)
	}
	dirs := strings.Fields(string(out))
	t.Cleanup(func() {
		for _, dir := range dirs {
			os.Remove(filepath.Join(dir, now))
		}
	})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, dir := range dirs {
		want, err := os.ReadFile(filepath.Join(dir, now))
		if err != nil {
			t.Fatalf("%v: a package of kinds has the line // +k8s:deepcopy-gen=package in its doc.go", err)
		}
		got, err := os.ReadFile(filepath.Join(dir, generated))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what make generate writes (%v)", filepath.Join(dir, generated), err)
		}
	}
}
