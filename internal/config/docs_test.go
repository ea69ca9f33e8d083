package config

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/reference/configuration.md")

func TestDocsAreCurrent(t *testing.T) {
	const path = "../../docs/reference/configuration.md"
	want := Markdown()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale; run go generate ./internal/config", path)
	}
}

func TestHelpNamesEverySettingOnceAndFits(t *testing.T) {
	table := ServerSettings(&Server{})
	text := Help(table)
	for i := range table {
		if n := strings.Count(text, table[i].synopsis()+"\n") + strings.Count(text, table[i].synopsis()+" "); n == 0 {
			t.Errorf("help lacks %q", table[i].synopsis())
		}
	}
	for _, category := range Categories(table) {
		if n := strings.Count(text, "\n"+category+":\n"); n != 1 {
			t.Errorf("category %q is there %d times", category, n)
		}
	}
	for line := range strings.Lines(text) {
		if len(line) > helpWidth+1 {
			t.Errorf("line is longer than %d: %q", helpWidth, line)
		}
	}
}
