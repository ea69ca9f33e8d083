package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/kubernetes/test/conformance/testdata"
	"sigs.k8s.io/yaml"
)

// TestKnownFailuresAreTests checks the tables of the documentation against
// upstream's list: a misspelt name would be a failure that nobody expects.
func TestKnownFailuresAreTests(t *testing.T) {
	known, err := readKnown(filepath.Join("..", "..", knownFile))
	if err != nil {
		t.Fatal(err)
	}
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
		ok      bool
		want    string
	}{
		"as listed": {map[string]result{"a": passed, "listed": failed}, true,
			"1 of 2 passed, 1 do not apply, 0 were skipped, 0 failed"},
		"a failure":       {map[string]result{"a": failed}, false, "1 failed:\n  a: timedout: too late\n"},
		"a listed passes": {map[string]result{"listed": passed}, false, "1 passed although"},
		"a skip":          {map[string]result{"a": {State: "skipped", Message: "one node"}}, true, "a: one node"},
		"passed alone":    {map[string]result{"a": {State: "passed", Again: true}}, true, "1 passed only alone"},
	} {
		got, ok := summarize(tenantSpace, c.results, known)
		if ok != c.ok || !strings.Contains(got, c.want) {
			t.Errorf("%s: %v\n%s\nwant %v and %q", name, ok, got, c.ok, c.want)
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
