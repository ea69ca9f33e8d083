package main

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/a4s-io/a4s/scripts/gomod"
)

func read(t *testing.T, text string) *gomod.File {
	t.Helper()
	m := &gomod.File{}
	if err := json.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRaise(t *testing.T) {
	r := raise{
		kubernetes: "v1.37.2", staging: "v0.37.2",
		others: map[string]string{"example.com/etcd": "v3.7.3", "example.com/none": "v1.0.0"},
		upstream: read(t, `{
			"Require": [
				{"Path": "k8s.io/api", "Version": "v0.0.0"}, {"Path": "k8s.io/added", "Version": "v0.0.0"},
				{"Path": "example.com/cel", "Version": "v0.29.0"}, {"Path": "k8s.io/klog/v2", "Version": "v2.150.0"},
				{"Path": "example.com/raft", "Version": "v3.7.0"}, {"Path": "example.com/traces", "Version": "v1.44.0"}]}`),
	}
	met := map[string]bool{}
	got := r.edits(read(t, `{
		"Require": [
			{"Path": "k8s.io/kubernetes", "Version": "v1.36.3"}, {"Path": "k8s.io/api", "Version": "v0.36.3"}, {"Path": "k8s.io/sample", "Version": "v0.0.0"},
			{"Path": "k8s.io/klog/v2", "Version": "v2.140.0"}, {"Path": "example.com/etcd", "Version": "v3.6.0"}, {"Path": "example.com/cel", "Version": "v0.30.0"}],
		"Replace": [
			{"Old": {"Path": "k8s.io/api"}, "New": {"Path": "k8s.io/api", "Version": "v0.36.3"}},
			{"Old": {"Path": "k8s.io/sample"}, "New": {"Path": "k8s.io/sample", "Version": "v0.36.3"}},
			{"Old": {"Path": "example.com/cel"}, "New": {"Path": "example.com/cel", "Version": "v0.26.0"}},
			{"Old": {"Path": "example.com/other"}, "New": {"Path": "example.com/other", "Version": "v1.0.0"}},
			{"Old": {"Path": "github.com/a4s-io/a4s"}, "New": {"Path": "../.."}}],
		"Exclude": [
			{"Path": "example.com/raft", "Version": "v3.7.0"}, {"Path": "example.com/traces", "Version": "v1.45.0"}, {"Path": "example.com/etcd", "Version": "v3.7.2"}]}`), met)
	want := []string{
		"-require=k8s.io/kubernetes@v1.37.2", "-require=k8s.io/api@v0.37.2", "-require=k8s.io/sample@v0.37.2",
		"-require=example.com/etcd@v3.7.3",
		"-replace=k8s.io/api=k8s.io/api@v0.37.2", "-replace=k8s.io/sample=k8s.io/sample@v0.37.2",
		"-replace=example.com/cel=example.com/cel@v0.29.0",
		"-dropexclude=example.com/raft@v3.7.0", "-dropexclude=example.com/etcd@v3.7.2",
		"-replace=k8s.io/added=k8s.io/added@v0.37.2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	if !maps.Equal(met, map[string]bool{"example.com/etcd": true}) {
		t.Errorf("met %v", met)
	}
	// A module without Kubernetes gets nothing that it does not have.
	if got := r.edits(read(t, `{"Require": [{"Path": "k8s.io/api", "Version": "v0.37.2"}]}`), met); len(got) != 0 {
		t.Errorf("a module that is there already: %q", got)
	}
}

// TestLeftPins: a pin whose module moved to another path holds nothing any more.
func TestLeftPins(t *testing.T) {
	r := raise{kubernetes: "v1.38.0", staging: "v0.38.0", upstream: read(t, `{
		"Require": [{"Path": "k8s.io/api", "Version": "v0.0.0"}, {"Path": "cel.example.com/cel", "Version": "v0.33.2"},
			{"Path": "example.com/yaml", "Version": "v3.0.5"}]}`)}
	got := r.left(read(t, `{"Replace": [
		{"Old": {"Path": "k8s.io/api"}, "New": {"Path": "k8s.io/api", "Version": "v0.37.2"}},
		{"Old": {"Path": "k8s.io/sample"}, "New": {"Path": "k8s.io/sample", "Version": "v0.37.2"}},
		{"Old": {"Path": "example.com/here"}, "New": {"Path": "./here"}},
		{"Old": {"Path": "example.com/yaml"}, "New": {"Path": "example.com/yaml", "Version": "v3.0.4"}},
		{"Old": {"Path": "example.com/cel"}, "New": {"Path": "example.com/cel", "Version": "v0.29.2"}}]}`))
	if want := []string{"example.com/cel"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The modules of upstream's programs get what both require, and all pins.
func TestAlign(t *testing.T) {
	first := read(t, `{
		"Require": [{"Path": "example.com/same", "Version": "v1.1.0"}, {"Path": "example.com/older", "Version": "v1.2.0"}, {"Path": "example.com/ours", "Version": "v1.0.0"}],
		"Replace": [
			{"Old": {"Path": "example.com/cel"}, "New": {"Path": "example.com/cel", "Version": "v0.29.0"}},
			{"Old": {"Path": "example.com/yaml"}, "New": {"Path": "example.com/yaml", "Version": "v3.0.4"}},
			{"Old": {"Path": "example.com/here"}, "New": {"Path": "./here"}}]}`)
	got := align(read(t, `{
		"Require": [{"Path": "example.com/same", "Version": "v1.1.0"}, {"Path": "example.com/older", "Version": "v1.0.0"}, {"Path": "example.com/theirs", "Version": "v2.0.0"}],
		"Replace": [{"Old": {"Path": "example.com/cel"}, "New": {"Path": "example.com/cel", "Version": "v0.29.0"}}]}`), first)
	if want := []string{"-require=example.com/older@v1.2.0",
		"-replace=example.com/yaml=example.com/yaml@v3.0.4"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestVersions(t *testing.T) {
	for in, want := range map[string]string{"v1.37.2": "v0.37.2", "v1.38.0-rc.1": "v0.38.0-rc.1", "1.37.2": "",
		"v1.37": "", "v2.0.0": "", "latest": ""} {
		if got, err := stagingVersion(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	for _, bad := range []string{"example.com/x", "@v1", "example.com/x@latest"} {
		if _, err := parseModules([]string{bad}); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}
