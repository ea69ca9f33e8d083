package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// quickly fails when what a test does takes longer than anything but a machine
// that is very busy explains.
func quickly(t *testing.T) {
	t.Helper()
	begin := time.Now()
	t.Cleanup(func() {
		if took := time.Since(begin); took > 2*time.Minute { // seconds; minutes and more as they were
			t.Errorf("it took %v", took)
		}
	})
}

// TestWallV7Patches: the work for a patch is that of reading it.
func TestWallV7Patches(t *testing.T) {
	quickly(t)
	const jsonPatch = "application/json-patch+json"
	p := protoProjector("t1")
	patch := func(n int, path, value string) []byte {
		op := `{"op":"add","path":"` + path + `","value":` + value + `}`
		return []byte("[" + strings.Repeat(op+",", n-1) + op + "]")
	}
	for _, c := range []struct {
		name string
		body []byte
		want error
	}{
		{"many operations", patch(9_900, strings.Repeat("/a", 125), `"x"`), nil},
		{"many operations of many kinds", patch(9_900, "/spec/template"+strings.Repeat("/0", 100), `{"x":[1]}`), nil},
		{"too many operations", patch(maxOperations+1, "/a", "1"), ErrTooLarge},
		{"very many operations", patch(80_000, "", "1"), ErrTooLarge},
		{"a path as long as can be", patch(40, strings.Repeat("/"+strings.Repeat("a", 60), maxSegments), `"x"`), nil},
		{"a path of too many segments", patch(1, strings.Repeat("/a", maxSegments+1), `"x"`), ErrMalformed},
		{"a path of millions of segments", patch(1, strings.Repeat("/", 3_000_000), `"x"`), ErrMalformed},
		{"a path too long", patch(1, "/"+strings.Repeat("a", maxPath), `"x"`), ErrMalformed},
		{"a long value far below",
			patch(1, strings.Repeat("/a", maxSegments), `"`+strings.Repeat("x", 2_500_000)+`"`), nil},
		{"escapes", patch(9_900, "/"+strings.Repeat("~1", 120), `"x"`), nil},
		{"from too long",
			[]byte(`[{"op":"copy","path":"/a","from":"` + strings.Repeat("/a", maxSegments+1) + `"}]`), ErrMalformed},
		{"members that mean nothing",
			[]byte(`[{"op":"add","path":"/a","value":1` + strings.Repeat(`,"x":1`, 9_000) + `}]`), nil},
	} {
		out, err := p.Patch(jsonPatch, podKind(), c.body)
		if !errors.Is(err, c.want) || c.want == nil && !json.Valid(out) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	env := func(n int) []byte {
		return []byte(`{"spec":{"containers":[{"name":"c[,","env":[{"name":"a"}` +
			strings.Repeat(`,{"name":"b"}`, n-2) + `]}]}}`)
	}
	for n, want := range map[int]error{2: nil, maxElements: nil, maxElements + 1: ErrTooLarge} {
		if _, err := p.Patch("application/strategic-merge-patch+json", podKind(), env(n)); !errors.Is(err, want) {
			t.Errorf("%d elements of lists: %v", n, err)
		}
		if _, err := p.Patch("application/merge-patch+json", podKind(), env(n)); err != nil {
			t.Errorf("%d elements of lists in a merge patch: %v", n, err)
		}
	}
	for body, want := range map[string]string{
		`[{"op":"add","path":"/metadata/namespace","value":"a","value":"b"}]`: `[{"op":"add",` +
			`"path":"/metadata/namespace","value":null,"value":"b.t1"}]`,
		`[{"path":"/x~01~1y","op":"add","value":[1]}]`: `[{"path":"/x~01~1y",` +
			`"op":"add","value":[1]}]`,
		`[{"op":"add","path":"","value":{"metadata":{"namespace":"d"}}}]`: `[{"op":"add","path":"",` +
			`"value":{"metadata":{"namespace":"d.t1"}}}]`,
		`[{"op":"add","path":"/metadata/namesp\u0061ce","value":"d","other":{}}]`: `[{"op":"add",` +
			`"path":"/metadata/namesp\u0061ce","value":"d.t1","other":{}}]`,
	} {
		if out, err := p.Patch(jsonPatch, podKind(), []byte(body)); err != nil || string(out) != want {
			t.Errorf("%s: %s, %v", body, out, err)
		}
	}
	for _, body := range []string{`[{"op":"add","path":"/a","value":[}}]`, `[{]`, `[1]`, `[{}] x`, ``,
		`[{"op":"add","path":"/a","value":1}`, `[null]`} {
		if out, err := p.Patch(jsonPatch, podKind(), []byte(body)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %s, %v", body, out, err)
		}
	}
}

// TestWallV7YAML: YAML is read in time that is linear and short, or refused.
func TestWallV7YAML(t *testing.T) {
	quickly(t)
	p := protoProjector("t1")
	const n = 2_500_000
	lines := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, c := range []struct {
		name, body string
		want       error
	}{
		{"directives", lines("%%TAG !a%d! b\n") + "---\na: b", ErrTooLarge},
		{"directives behind other line breaks",
			strings.ReplaceAll(lines("%%TAG !a%d! b\r"), "\r", "\u2028") + "---\na: b", ErrTooLarge},
		{"lines", lines("k%d: v\n"), ErrTooLarge},
		{"values in braces", "[" + strings.Repeat("{a: b},", n/7) + "]", ErrTooLarge},
		{"keys without end", "[" + strings.Repeat("? a,", n/4) + "]", ErrTooLarge},
		{"lists in lists", strings.Repeat("- - - - - - a\n", n/14), ErrTooLarge},
		{"deep in braces", strings.Repeat("{a: ", 5000) + strings.Repeat("}", 5000), ErrMalformed},
		{"without an end", strings.Repeat("[", 100_000), ErrMalformed},
		{"deep in lines", strings.Repeat("- ", 9000) + "a", ErrMalformed},
		{"aliases of a long text",
			"a: &a " + strings.Repeat("x", 10_000) + "\nb: [" + strings.Repeat("*a,", 3000) + "]", ErrTooLarge},
		{"aliases of aliases", "a: &a [" + strings.Repeat("x,", 1000) + "]\nb: &b [" + strings.Repeat("*a,", 99) +
			"]\nc: &c [" + strings.Repeat("*b,", 99) + "]\nd: [" + strings.Repeat("*c,", 99) + "]", ErrMalformed},
		{"aliases of a long text in a key",
			"a: &a " + strings.Repeat("x", 900) + "\nb: [" + strings.Repeat("{*a : 1},", 5000) + "]", ErrTooLarge},
		{"an alias of itself", "a: &a [*a]", ErrMalformed},
		{"two bytes for each character", "\xff\xfea\x00:\x00 \x00b\x00", ErrMalformed},
		{"values in JSON", `{"a":[` + strings.Repeat("1,", maxMarks) + `1]}`, ErrTooLarge},
		{"an alias of a few", "metadata: &m\n  name: x\nother: *m\n", nil},
		{"a long text", "data:\n  a: |\n" + strings.Repeat("    "+strings.Repeat("x", 80)+"\n", n/85), nil},
		{"as much as can be", strings.Repeat("-\n"+strings.Repeat(" - b: c\n", 5000), maxMarks/10_010), nil},
		{"as much as can be in JSON", `{"a":[` + strings.Repeat(`["`+strings.Repeat(",[{", 10_000)+`",`+
			strings.Repeat("1,", 5000)+`1],`, maxMarks/5010) + `1]}`, nil},
		{"too much in one list", "a:\n" + strings.Repeat("- b: c\n", maxMembers+1), ErrTooLarge},
	} {
		out, err := p.Patch("application/apply-patch+yaml", customKind(true), []byte(c.body))
		if !errors.Is(err, c.want) || c.want == nil && !json.Valid(out) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestDefinitionsInYAML: a CRD of 1.5 MB is nowhere near the bounds.
func TestDefinitionsInYAML(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n" +
		"  name: widgets.example.com\nspec:\n  versions:\n  - name: v1\n    schema:\n      openAPIV3Schema:\n" +
		"        properties:\n")
	for i := 0; b.Len() < 1_500_000; i++ {
		fmt.Fprintf(&b, "          field%d:\n            description: |-\n              What it is, how it is set, "+
			"and when:\n              see https://example.com/%d, and *all* the others & more.\n", i, i)
		b.WriteString("            items:\n              properties:\n                name: {type: string, " +
			"default: \"\", maxLength: 10}\n                of:\n                  enum: [a, b]\n" +
			"              required:\n              - name\n              type: object\n            type: array\n")
	}
	body := []byte(b.String())
	if marks := marksOf(body, false); marks > maxMarks*2/3 {
		t.Errorf("%d marks", marks)
	}
	p := protoProjector("t1")
	r := Resource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
		Kind: "CustomResourceDefinition"}
	out, err := p.Patch("application/apply-patch+yaml", r, body)
	if err != nil {
		t.Fatal(err)
	}
	want, err := yaml.YAMLToJSON(body)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < len(want) {
		t.Errorf("%d bytes were made of %d", len(out), len(want))
	}
	// kubectl sends JSON.
	if again, err := p.Patch("application/apply-patch+yaml", r, want); err != nil || string(again) != string(out) {
		t.Errorf("from JSON: %v", err)
	}
}
