package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// fixed says the licences of parts by their names.
type fixed map[string][]string

func (f fixed) read(_ context.Context, p *part) error {
	p.licenses = f[p.name]
	return nil
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	parts := func() map[string]*part {
		return map[string]*part{"a@v1": {name: "a", version: "v1"}, "b@v1": {name: "b", version: "v1"}}
	}
	decided := []decision{{Name: "b", Licenses: []string{"MPL-2.0"}, Reason: "unchanged"}}
	for _, tc := range []struct {
		name     string
		licenses fixed
		policy   policy
		want     []string
	}{
		{name: "allowed", licenses: fixed{"a": {"MIT"}, "b": {"MIT"}}, policy: policy{Allowed: []string{"MIT"}}},
		{name: "one of two is not allowed", licenses: fixed{"a": {"MIT", "GPL-3.0"}, "b": {"MIT"}},
			policy: policy{Allowed: []string{"MIT"}},
			want:   []string{"a@v1: GPL-3.0 is not among the allowed licences"}},
		{name: "not recognized", licenses: fixed{"a": {"MIT"}}, policy: policy{Allowed: []string{"MIT"}},
			want: []string{"b@v1: no licence was recognized"}},
		{name: "decided", licenses: fixed{"a": {"MIT"}, "b": {"GPL-3.0"}},
			policy: policy{Allowed: []string{"MIT"}, Decisions: decided}},
		{name: "decision without need", licenses: fixed{"a": {"MIT"}, "b": {"MIT"}},
			policy: policy{Allowed: []string{"MIT"},
				Decisions: []decision{{Name: "c", Licenses: []string{"MIT"}, Reason: "r"}}},
			want: []string{"the decision on c is not needed any more"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := tc.policy.judge(t.Context(), tc.licenses, parts())
			if (err == nil) != (len(tc.want) == 0) {
				t.Fatalf("judge = %v, want %q", err, tc.want)
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("judge = %v, want %q in it", err, w)
				}
			}
		})
	}
}

// TestOfThisProgram makes the bill of a real binary, this package's own, twice.
func TestOfThisProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "bin", "bom"), ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	bom := filepath.Join(dir, "bin", "bom")
	archive := filepath.Join(dir, "payload.tar.zst")
	if out, err := exec.CommandContext(t.Context(), "tar", "--zstd", "-cf", archive, "-C", dir, "bin").
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	policy := filepath.Join(dir, "policy.yaml")
	write := func(allowed string) {
		content := "allowed: [" + allowed +
			"]\ndecisions:\n- {name: glibc, licenses: [LGPL-2.1-or-later], reason: test}\n" +
			"- {name: github.com/a4s-io/a4s/scripts/bom, licenses: [Apache-2.0], reason: test}\n"
		if err := os.WriteFile(policy, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list := func(out string) (string, error) {
		said, err := exec.CommandContext(t.Context(), bom, "--binary", bom, "--payload", archive, "--policy", policy,
			"--out", out).CombinedOutput()
		return string(said), err
	}

	write("MIT")
	if said, err := list(filepath.Join(dir, "refused")); err == nil ||
		!strings.Contains(said, "github.com/google/licenseclassifier/v2@v2.0.0: Apache-2.0 is not among the allowed") {
		t.Errorf("with MIT alone: %v, %s", err, said)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "refused*")); len(left) != 0 {
		t.Errorf("a refusal wrote %q", left)
	}
	write("MIT, Apache-2.0, BSD-3-Clause, BSD-2-Clause, ISC")
	var files [2][]byte
	for i, out := range []string{"one", "two"} {
		if said, err := list(filepath.Join(dir, out)); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		var err error
		if files[i], err = os.ReadFile(filepath.Join(dir, out+".cdx.json")); err != nil {
			t.Fatal(err)
		}
	}
	if string(files[0]) != string(files[1]) {
		t.Error("the same binary gives two bills")
	}
	var got cyclonedx.BOM
	if err := json.Unmarshal(files[0], &got); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, c := range *got.Components {
		if c.Licenses != nil && len(*c.Licenses) > 0 {
			names[c.Name] = (*c.Licenses)[0].License.ID
		}
	}
	for name, license := range map[string]string{"github.com/CycloneDX/cyclonedx-go": "Apache-2.0",
		"std": "BSD-3-Clause", "glibc": "LGPL-2.1-or-later"} {
		if names[name] != license {
			t.Errorf("the licence of %s is %q, want %q", name, names[name], license)
		}
	}
	texts, err := os.ReadFile(filepath.Join(dir, "one.licenses.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(texts), "Redistributions of source code must retain") {
		t.Error("the list has no text of Go's licence")
	}
}
