package runbooks

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestEachCommandIsDecided: what the page tells to type, and what it says that is printed, is
// what a test types and sees, or there is a reason why not.
func TestEachCommandIsDecided(t *testing.T) {
	books, err := Read(Page)
	if err != nil {
		t.Fatal(err)
	}
	decisions, tests := Decisions(), 0
	for _, b := range books {
		decided, found := decisions[b.Title]
		if !found {
			t.Errorf("no test is for the runbook %q: add it to Decisions, and to the tests of tests/e2e", b.Title)
		}
		delete(decisions, b.Title)
		for what, texts := range map[string][]string{"type": b.Commands, "printed": b.Shows} {
			for _, text := range texts {
				d, found := decided[text]
				switch {
				case !found:
					t.Errorf("%s: nothing is decided about %q (%s)", b.Title, text, what)
				case d.How < AsWritten || d.How > NotDone:
					t.Errorf("%s: %q is decided as %d", b.Title, text, d.How)
				case (d.How == AsWritten) != (d.Why == ""):
					t.Errorf("%s: %q is decided as %d, with the reason %q", b.Title, text, d.How, d.Why)
				}
				if d.How == AsWritten {
					tests++
				}
			}
		}
		for text := range decided {
			if !slices.Contains(b.Commands, text) && !slices.Contains(b.Shows, text) {
				t.Errorf("%s: the page does not have %q any more", b.Title, text)
			}
		}
	}
	for title := range decisions {
		t.Errorf("the page does not have the runbook %q any more", title)
	}
	tested := testedTitles(t)
	for _, b := range books[1:] {
		if !slices.Contains(tested, b.Title) {
			t.Errorf("no test of tests/e2e opens the runbook %q", b.Title)
		}
	}
	if len(books) < 10 || tests < 60 {
		t.Errorf("%d runbooks and %d texts were found: is the page written in another way?", len(books), tests)
	}
}

// testedTitles are those of the runbooks that tests open.
func testedTitles(t *testing.T) (titles []string) {
	t.Helper()
	files, err := filepath.Glob("../e2e/runbooks*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`openRunbook\(t, "([^"]+)"\)`).FindAllStringSubmatch(string(text), -1) {
			titles = append(titles, m[1])
		}
	}
	return titles
}

// TestPageIsUnderstood makes sure that the check above can fail.
func TestPageIsUnderstood(t *testing.T) {
	books := parse("# Page\n\n```sh\na4s doctor # looks\n```\n\n| `a` | b |\n\n## One\n\n" +
		"**How it looks.** `a4s status` says `it is\ndown`:\n\n```\nERROR    It\n  cause: that\n```\n\n" +
		"**What to do.** With `--flag`, or `systemctl\nstart a4s`:\n\n" +
		"1. First:\n\n   ```sh\n   # on a server\n   a4s  one --all   # why\n   a4s two\n   ```\n\n" +
		"   ```console\n   # a4s three\n   it is\n   done\n   ```\n\n" +
		"   ```yaml\n   # file\n   key:\n   - value\n   ```\n\n" +
		"**Afterwards.** `good`.\n\n## Two\n")
	want := []Runbook{{Commands: []string{"a4s doctor"}},
		{Title: "One", Commands: []string{"a4s status", "systemctl start a4s", "a4s one --all", "a4s two", "a4s three",
			"key: - value"}, Shows: []string{"it is down", "ERROR It cause: that", "it is done", "good"}},
		{Title: "Two"}}
	if len(books) != len(want) {
		t.Fatalf("got %d runbooks: %+v", len(books), books)
	}
	for i, b := range books {
		if b.Title != want[i].Title || !slices.Equal(b.Commands, want[i].Commands) ||
			!slices.Equal(b.Shows, want[i].Shows) {
			t.Errorf("got %+v, want %+v", b, want[i])
		}
	}
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		shown string
		names []string
		out   string
		want  bool
	}{
		{"API: ready", nil, "Version:  1\nAPI:        ready\n", true},
		{"API: ready", nil, "API:        not ready\n", false},
		{"(/var/lib/a4s): 90 MiB of 40000 MiB are free", nil, "(/var/lib/a4s): 127 MiB of 2 MiB are free", true},
		{"4096 of 4096 MiB, of which 3900 MiB hold", nil, "95 of 96 MiB, of which 94 MiB hold", true},
		{"12 pods on 3 nodes deleted, 2 left", nil, "1 pods on 1 nodes deleted, 0 left", true},
		{"ERROR It does not: ... cause: the disk", nil, "ERROR    It does not: for 10s\n  cause: the disk", true},
		{"ERROR It does not: ... cause: the disk", nil, "ERROR    It does not: a\nb\n  cause: the disk", false},
		{"0/1", nil, "1/1", false},
		{"runs (1): it is group-1", []string{"group-1", "other"}, "runs (1): it is other", true},
		{"runs (1): it is group-1", nil, "runs (2): it is group-1", false},
		{"held by FINALIZER (set by MANAGER)", []string{"MANAGER", "..."}, "held by FINALIZER (set by test)", true},
		{"end of ... is held by F (set by M) ...; they run until ..., because", []string{"F", "x/y", "M", "..."},
			"end of 5 configmaps: configmaps a/b is held by x/y (set by test); they run until 17:08Z, because", true},
		{"end of ... is held by F (set by M) ...; they run until ..., because", []string{"F", "x/y", "M", "..."},
			"end of 5 configmaps: configmaps a/b is held by x/y; they run until 17:08Z, because", false},
		{"is being deleted already waiting for ...", nil, "is being deleted already\nwaiting for its space", true},
		{`with "a4s server"; ...`, nil, `with "a4s server"; if it runs`, true},
	} {
		if got := Pattern(c.shown, c.names...).MatchString(c.out); got != c.want {
			t.Errorf("%q finds %q: %t, want %t (%s)", c.shown, c.out, got, c.want, Pattern(c.shown, c.names...))
		}
	}
}
