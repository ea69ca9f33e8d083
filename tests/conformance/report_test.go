package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/kubernetes/test/conformance/testdata"
	"sigs.k8s.io/yaml"
)

// TestKnownFailuresAreTests checks the tables of the documentation against
// upstream's list: a misspelt name would be a failure that nobody expects.
func TestKnownFailuresAreTests(t *testing.T) {
	tables, err := readKnown(filepath.Join("..", "..", knownFile))
	if err != nil {
		t.Fatal(err)
	}
	known := tables[conformanceName]
	data, err := testdata.GetConformanceTestdataFS().EmbeddedFS.ReadFile("conformance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tests []struct{ Codename string }
	if err := yaml.Unmarshal(data, &tests); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, test := range tests {
		names = append(names, test.Codename)
	}
	if len(known[tenantSpace]) == 0 {
		t.Errorf("%s lists no test that does not apply in a tenant", knownFile)
	}
	for space, list := range known {
		for name, why := range list {
			if !slices.Contains(names, name) {
				t.Errorf("%s: %q is not among the %d conformance tests", space, name, len(names))
			}
			if why == "" {
				t.Errorf("%s: no reason why %q does not apply", space, name)
			}
		}
	}
}

func TestSummary(t *testing.T) {
	known := map[string]string{"listed": "because"}
	passed, failed := result{State: "passed"}, result{State: "timedout", Message: "too late\nwith details"}
	for name, c := range map[string]struct {
		results map[string]result
		all     bool
		ok      bool
		want    string
	}{
		"as listed": {map[string]result{"a": passed, "listed": failed}, true, true,
			"1 of 2 passed, 1 do not apply, 0 were skipped, 0 failed"},
		"a failure":       {map[string]result{"a": failed}, false, false, "1 failed:\n  a: timedout: too late\n"},
		"a listed passes": {map[string]result{"listed": passed}, true, false, "1 passed although"},
		"a skip": {map[string]result{"a": {State: "skipped", Message: "one node"}}, false, true,
			"a: one node"},
		"passed alone": {map[string]result{"a": {State: "passed", Again: true}}, false, true,
			"1 passed only alone"},
		"a listed gone": {map[string]result{"a": passed}, true, false,
			"1 are in docs/reference/conformance.md and are no tests"},
	} {
		got := summarize(tenantSpace, c.results, known, c.all)
		if got.asListed != c.ok || !strings.Contains(got.text, c.want) {
			t.Errorf("%s: %v\n%s\nwant %v and %q", name, got.asListed, got.text, c.ok, c.want)
		}
	}
}

func TestReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	content := `[{"SpecReports": [
		{"LeafNodeType": "ReportAfterSuite", "LeafNodeText": "report", "State": "passed"},
		{"ContainerHierarchyTexts": ["[sig] A"], "LeafNodeType": "It", "LeafNodeText": "works", "State": "failed", "Failure": {"Message": " no "}},
		{"ContainerHierarchyTexts": ["[sig] B"], "LeafNodeType": "It", "LeafNodeText": "is not asked for", "State": "skipped"}]}]`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readReport(file)
	if want := (result{State: "failed", Message: "no"}); err != nil || len(got) != 1 || got["[sig] A works"] != want {
		t.Errorf("%v, %v", got, err)
	}
}

// TestFocusOfOtherTests: ginkgo puts the name of the suite before that of a test.
func TestFocusOfOtherTests(t *testing.T) {
	focus := regexp.MustCompile(otherTests().focus)
	for name, want := range map[string]bool{
		"[sig-network] DNS should provide DNS for the cluster":                            true,
		"[sig-node] Probing container should have monotonically increasing restart count": true,
		"[sig-storage] EmptyDir volumes pod should support shared volumes":                true,
		"[sig-storage] In-tree Volumes [Driver: local] [LocalVolumeType: dir] it":         true,
		"[sig-storage] In-tree Volumes [Driver: nfs] it":                                  false,
		"[sig-storage] CSI Mock volume attach CSI attach test":                            false,
		"[sig-scheduling] SchedulerPredicates it":                                         false,
	} {
		if got := focus.MatchString("Kubernetes e2e suite " + name); got != want {
			t.Errorf("%s: found %v, want %v", name, got, want)
		}
	}
}

// TestEndlessTestsAreNotRun: of the tests of a table those whose reason says it, if they
// are asked for.
func TestEndlessTestsAreNotRun(t *testing.T) {
	known := map[string]string{
		"[sig] A waits": "because " + endlessMark, "[sig] B waits": endlessMark, "[sig] A fails": "because",
	}
	got, err := endless(known, "A")
	if want := []string{"[sig] A waits"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := endless(known, ""); err != nil || len(got) != 2 {
		t.Errorf("of all: %v, %v", got, err)
	}
	if _, err := endless(known, "("); err == nil {
		t.Error("no error from an expression that is none")
	}
	sum := summarize(tenantSpace, map[string]result{"[sig] A waits": {State: "not run"}}, known, false)
	if !sum.asListed || sum.intended != 1 {
		t.Errorf("one that is not run: %+v", sum)
	}
}

// TestKnownTables: the tables of both kinds of tests are apart.
func TestKnownTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	content := "## Tests that do not apply in a tenant\n| a | `[x] one` |\n" +
		"## Tests in a tenant with default settings\n| b | `[x] two` |\n" +
		"## Other tests that do not apply in a tenant\n| c | `[x] three` |\n## Results\n| d | `[x] no` |\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readKnown(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]map[string]string{
		conformanceName: {
			tenantSpace: {"[x] one": "a"}, restrictedSpace: {"[x] one": "a", "[x] two": "b"}, systemSpace: {},
		},
		otherName: {tenantSpace: {"[x] three": "c"}, restrictedSpace: {"[x] three": "c"}, systemSpace: {}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestRecord: a run replaces its own row of the results, or adds it.
func TestRecord(t *testing.T) {
	page := "text\n\n## Results\n\n| Tests | Space | N |\n|---|---|---|\n| conformance | tenant | 1 |\n\n## More\n"
	got, err := withResult(page, []string{"conformance", "tenant"}, []string{"2"})
	if want := strings.Replace(page, "| 1 |", "| 2 |", 1); err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	got, err = withResult(page, []string{"conformance", "system"}, []string{"3"})
	want := strings.Replace(page, "| 1 |\n", "| 1 |\n| conformance | system | 3 |\n", 1)
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if _, err := withResult("## Results\n\n## More\n", []string{"a", "b"}, nil); !errors.Is(err, errNoResults) {
		t.Errorf("a page without the table: %v", err)
	}
}
