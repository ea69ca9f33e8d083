package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestYAMLKeepsWhatComesTwice: the strict reader says of what is handed on what it
// says of what came, and others read the same in it.
func TestYAMLKeepsWhatComesTwice(t *testing.T) {
	for name, body := range map[string]string{
		"a value":          "metadata:\n  name: a\ndata:\n  a: x\n\n  a: y\n",
		"twice and again":  "data: {a: x}\nspec:\n- b: 1\n  c: 2\n  b: 3\n  b: 4\ndata: {a: y}\nlast: 1\nlast: 2\n",
		"in what is twice": "data:\n  a: x\n  a: y\ndata:\n  b: x\n  b:\n    z: 1\n    z: 2\n",
		"no texts":         "1: a\n1: b\ntrue: c\ntrue: d\n",
		"what is left out": "metadata:\n  tenant: t1\n  selfLink: x\n  name: a\n  labels:\n    a4s.io/tenant: x\n" +
			"spec:\n  a: 1\n  a: 2\n",
		"names":         "metadata:\n  name: a\n  name: b\n  labels: {x: y}\nspec: 1\nspec: 2\n",
		"JSON in lines": "{\"metadata\":{\n\"tenant\":\"t1\",\n\"name\":\"a\"\n},\n\"x\":1,\n\"x\":2}",
		"texts": "data:\n  a: |\n    several\n    lines\n  b: \"\\u0085\\u2028\\uFEFF\\x7f\\u009f\\U0001F600\"\n" +
			"  b: \"\\u0085\\u2028\\uFEFF\\x7f\\u009f\\U0001F600\"\n",
		"texts, each once": "data:\n  a: |\n    several\n    lines\n" +
			"  b: \"\\u0085\\u2028\\uFEFF\\x7f\\u009f\\U0001F600\"\n",
		"numbers":            "a: 1.0\nb: 1e21\nc: 18446744073709551615\nd: 0777\ne: 1_000\na: 1.5\nf: 2001-01-01\n",
		"nothing":            "a: ~\na:\nb: {}\nb: []\n",
		"anchors, each once": "a: &x {b: 1}\nc: *x\n",
	} {
		handed, err := FromYAML([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for what, got := range map[string][]byte{"read": handed,
			"composed": must(protoProjector("t1").JSON(In, Resource{}, handed))(t)} {
			if !json.Valid(got) {
				t.Fatalf("%s: %s is no JSON", name, got)
			}
			_, wantErr := yaml.YAMLToJSONStrict([]byte(body))
			_, gotErr := yaml.YAMLToJSONStrict(got)
			if message(wantErr) != strings.ReplaceAll(strings.ReplaceAll(message(gotErr), `"1"`, "1"),
				`"true"`, "true") {
				t.Errorf("%s, %s: %v, want %v: %s", name, what, gotErr, wantErr, got)
			}
			want, err := yaml.YAMLToJSON([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			again, err := yaml.YAMLToJSON(got)
			if what == "read" && (err != nil || string(again) != string(want)) {
				t.Errorf("%s: reads %s, %v, want %s: %s", name, again, err, want, got)
			}
		}
	}
	// Merge keys are read, and of them nothing can be said.
	if got, err := FromYAML([]byte("a: &a {x: 1}\nb: {<<: *a, x: 2}\n")); err != nil ||
		string(got) != `{"a":{"x":1},"b":{"x":2}}` {
		t.Errorf("%s, %v", got, err)
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestLastOfEach: what comes twice is there twice, and the last one counts.
func TestLastOfEach(t *testing.T) {
	for body, want := range map[string][2]string{
		`{"a":1,"b":{"c":[{"d":1,"d":2}]},"a":3}`: {`{"a":null,"b":{"c":[{"d":null,"d":2}]},"a":3}`},
		"{\"a\":{\n\"x\":1},\"a\":{\n\"y\":2}}": {"{\"a\":null\n,\"a\":{\n\"y\":2}}",
			"{\"a\":null\n,\"a\":{\"x\":1,\n\"y\":2}}"},
		`{"a":{"b":{"c":1}},"a":{"b":{"d":1}}}`: {`{"a":null,"a":{"b":{"d":1}}}`,
			`{"a":null,"a":{"b":{"c":1,"d":1}}}`},
		`{"a":{"x":1,"y":2},"a":{"x":3,"x":4},"a":{"z":5}}`: {`{"a":null,"a":null,"a":{"z":5}}`,
			`{"a":null,"a":null,"a":{"y":2,"x":4,"z":5}}`},
		`{"a":{"x":1}, "a":{"x":2,"x":3}}`: {`{"a":null, "a":{"x":null,"x":3}}`,
			`{"a":null, "a":{"x":null,"x":3}}`},
		`{"a":{"b":1},"a":[],"a":{ }}`: {`{"a":null,"a":null,"a":{ }}`,
			`{"a":null,"a":null,"a":{"b":1 }}`},
		`[{"a":1,"\u0061":2}]`: {`[{"a":null,"\u0061":2}]`},
		` [ ] `:                {` [ ] `},
		`{"a":"{\"a\":1}","b":{},"b":{},"b":"last"}`: {`{"a":"{\"a\":1}","b":null,"b":null,"b":"last"}`},
	} {
		for i, merged := range []bool{false, true} {
			w := want[i]
			if w == "" {
				w = want[0]
			}
			if got, err := lastOfEach([]byte(body), merged); err != nil || string(got) != w {
				t.Errorf("%s, merged %v: %s, %v, want %s", body, merged, got, err, w)
			}
		}
	}
}
