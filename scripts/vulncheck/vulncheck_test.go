package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var today = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestExceptionsAreReviewed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, content, want string }{
		{name: "good", content: "exceptions: [{id: GO-1, reason: r, reviewed: 2026-11-01, until: 2026-11-21}]"},
		{name: "no reason", content: "exceptions: [{id: GO-1, reviewed: 2026-11-01, until: 2026-12-01}]",
			want: "needs an id and a reason"},
		{name: "ran out", content: "exceptions: [{id: GO-1, reason: r, reviewed: 2026-11-01, until: 2026-11-19}]",
			want: "ran out on 2026-11-19"},
		{name: "for ever", content: "exceptions: [{id: GO-1, reason: r, reviewed: 2026-11-01, until: 2029-11-01}]",
			want: "more than half a year"},
		{name: "tomorrow's review", content: "exceptions: [{id: GO-1, reason: r, reviewed: 2026-11-25, until: " +
			"2026-12-01}]", want: "in the future"},
		{name: "no date",
			content: "exceptions: [{id: GO-1, reason: r, reviewed: soon, until: 2026-12-01}]", want: "reviewed:"},
		{name: "twice", content: "exceptions: [{id: GO-1, reason: r, reviewed: 2026-11-01, until: 2026-12-01}, {id: " +
			"GO-1, reason: r, reviewed: 2026-11-01, until: 2026-12-01}]", want: "twice"},
		{name: "unknown field", content: "exceptions: [{id: GO-1, why: r}]", want: "unknown field"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "exceptions.yaml")
			if err := os.WriteFile(file, []byte(tc.content), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := readExceptions(file, today)
			if tc.want == "" && err != nil ||
				tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("readExceptions = %v, want %q", err, tc.want)
			}
		})
	}
	if _, err := readExceptions("exceptions.yaml", time.Now()); err != nil {
		t.Errorf("the file of the project: %v", err)
	}
}

// TestOfARealProgram has govulncheck judge a program that was built here, by a
// database that calls a function of it vulnerable.
func TestOfARealProgram(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	program := filepath.Join(dir, "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	entry := func(id, symbol string) {
		t.Helper()
		content, err := json.Marshal(map[string]any{
			"schema_version": "1.3.1", "id": id, "modified": "2026-01-01T00:00:00Z",
			"published": "2026-01-01T00:00:00Z", "summary": "it does harm",
			"affected": []any{map[string]any{
				"package": map[string]any{"name": "sigs.k8s.io/yaml", "ecosystem": "Go"},
				"ranges": []any{map[string]any{"type": "SEMVER",
					"events": []any{map[string]any{"introduced": "0"}}}},
				"ecosystem_specific": map[string]any{
					"imports": []any{map[string]any{"path": "sigs.k8s.io/yaml", "symbols": []string{symbol}}},
				},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		write("db/ID/"+id+".json", string(content))
	}
	entry("GO-2026-0001", "UnmarshalStrict") // the program calls it
	entry("GO-2026-0002", "JSONToYAML")      // it does not
	write("db/index/db.json", `{"modified": "2026-01-01T00:00:00Z"}`)
	write("db/index/modules.json", `[{"path": "sigs.k8s.io/yaml", "vulns": [{"id": "GO-2026-0001", "modified": `+
		`"2026-01-01T00:00:00Z"}, {"id": "GO-2026-0002", "modified": "2026-01-01T00:00:00Z"}]}]`)
	write("db/index/vulns.json", `[{"id": "GO-2026-0001", "modified": "2026-01-01T00:00:00Z"}, {"id": `+
		`"GO-2026-0002", "modified": "2026-01-01T00:00:00Z"}]`)
	t.Setenv("GOVULNDB", "file://"+filepath.Join(dir, "db"))
	none := write("none.yaml", "exceptions: []")
	const form = "exceptions: [{id: %, reason: strict is harmless, reviewed: 2026-11-01, until: 2026-12-01}]"

	var out strings.Builder
	err := run(t.Context(), []string{"--exceptions", none, program}, &out, today)
	if err == nil || !strings.Contains(err.Error(), "GO-2026-0001: it does harm") ||
		!strings.Contains(err.Error(), "sigs.k8s.io/yaml.UnmarshalStrict (program)") {
		t.Errorf("without exceptions: %v", err)
	}
	if err != nil && strings.Contains(err.Error(), "GO-2026-0002") ||
		!strings.Contains(out.String(), "GO-2026-0002 is in a module, not in a program") {
		t.Errorf("what is not in the program: %v, %s", err, out.String())
	}
	out.Reset()
	if err := run(t.Context(), []string{"--exceptions",
		write("one.yaml", strings.Replace(form, "%", "GO-2026-0001", 1)), program}, &out, today); err != nil {
		t.Errorf("with an exception: %v", err)
	}
	if !strings.Contains(out.String(), "GO-2026-0001 is excepted until 2026-12-01: strict is harmless") {
		t.Errorf("the exception is not reported: %s", out.String())
	}
	err = run(t.Context(), []string{
		"--exceptions", write("two.yaml", strings.Replace(form, "%", "GO-2026-0002", 1)), program,
	}, &out, today)
	if err == nil || !strings.Contains(err.Error(), "the exception for GO-2026-0002 is not needed") {
		t.Errorf("with an exception that is not needed: %v", err)
	}

	t.Setenv("GOVULNDB", "file://"+filepath.Join(dir, "nowhere"))
	if err := run(t.Context(), []string{"--exceptions", none, program}, &out, today); err == nil {
		t.Error("without a database nothing was found, and that passed")
	}
	out.Reset()
	if err := run(t.Context(), []string{"--exceptions", none, "--offline-ok", program}, &out, today); err != nil ||
		!strings.Contains(out.String(), "NOT CHECKED") {
		t.Errorf("with --offline-ok: %v, %s", err, out.String())
	}
}
