package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDrawingsAreCurrent: the drawings are those of the texts, and each file that a text names is
// there.
func TestDrawingsAreCurrent(t *testing.T) {
	const root = "../.."
	texts, err := filepath.Glob(filepath.Join(root, "docs/images/*.txt"))
	if err != nil || len(texts) == 0 {
		t.Fatal("there are no texts of drawings", err)
	}
	for _, text := range texts {
		want, err := draw(root, strings.TrimPrefix(text, root))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := os.ReadFile(strings.TrimSuffix(text, ".txt") + ".svg")
		if err != nil || string(got) != want {
			t.Errorf("the drawing of %s is not current (%v): run make docs", text, err)
		}
	}
}

// TestLayersHaveOneLine: what cannot be said in one line, or is nowhere, is no layer.
func TestLayersHaveOneLine(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"layer a | main.go | short", ""},
		{"option a | main.go, main_test.go | short", ""},
		{"upstream a | k8s.io/apiserver | short", ""},
		{"layer a | main.go | " + strings.Repeat("x", longestAlone+1), "does not fit"},
		{"layer a | main.go | short | " + strings.Repeat("x", longestBack+1), "does not fit"},
		{"layer a | gone.go | short", "no such file"},
		{"layer a | main.go", "2 fields"},
		{"layers a | main.go | short", "no word"},
	} {
		err := (&drawing{root: "."}).line(c.line)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40s: %v, want %q", c.line, err, c.want)
		}
	}
}
