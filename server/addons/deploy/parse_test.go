package deploy

import (
	"strings"
	"testing"
)

func cm(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n"
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, file, text string
		want             string // the objects in order, or a part of the error
	}{
		{"one", "a.yaml", cm("x"), "ConfigMap x"},
		{"documents", "a.yaml",
			"---\n" + cm("x") + "---\n# nothing\n--- # more\n" + cm("z") + "---\n", "ConfigMap x, ConfigMap z"},
		{"other line ends", "a.yaml", strings.ReplaceAll(cm("x")+"---\n"+cm("z"), "\n", "\r\n"),
			"ConfigMap x, ConfigMap z"},
		{"dashes in a text", "a.yaml", cm("x") + "data:\n  k: |\n    ---\n    a\n", "ConfigMap x"},
		{"content behind the dashes", "a.yaml",
			`--- {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}`, "ConfigMap x"},
		{"only a comment", "a.yaml", "# gone\n", ""},
		{"JSON", "a.json", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}} {"apiVersion":"v1",` +
			`"kind":"Secret","metadata":{"name":"y","namespace":"n"}}`, "ConfigMap x, Secret n/y"},
		{"JSON in YAML", "a.yaml", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`, "ConfigMap x"},
		{"list", "a.yaml", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: " +
			"{name: x}}\n- {apiVersion: v1, kind: Secret, metadata: {name: z}}\n", "ConfigMap x, Secret z"},
		{"typed list", "a.yaml",
			"apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: x}\n", "ConfigMap x"},
		{"empty list", "a.yaml", "apiVersion: v1\nkind: List\nitems: []\n", ""},
		{"what others need comes first", "a.yaml", cm("x") + "---\napiVersion: apiextensions.k8s.io/v1\n" +
			"kind: CustomResourceDefinition\nmetadata: {name: c}\n---\napiVersion: v1\nkind: Namespace\n" +
			"metadata: {name: ns}\n---\napiVersion: v1\nkind: Tenant\nmetadata: {name: t1}\n---\n" + cm("z"),
			"Tenant t1, Namespace ns, CustomResourceDefinition c, ConfigMap x, ConfigMap z"},
		{"tenant", "a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, tenant: t1}\n---\napiVersion: " +
			"v1\nkind: ConfigMap\nmetadata: {name: x, tenant: system}\n", "ConfigMap x of tenant t1, ConfigMap x"},

		{"empty", "a.yaml", " \n", "the file is empty"},
		{"no kind", "a.yaml", cm("x") + "---\nmetadata: {name: x}\n", "document 2 (line 5)"},
		{"no version", "a.yaml", "kind: ConfigMap\nmetadata: {name: x}\n", "apiVersion is missing"},
		{"no name", "a.yaml", "apiVersion: v1\nkind: ConfigMap\n", "metadata.name is missing"},
		{"a name to be made up", "a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}\n",
			"use metadata.name"},
		{"bad YAML", "a.yaml", cm("x") + "---\nkind: [\n", "document 2 (line 5)"},
		{"a key twice", "a.yaml", cm("x") + "kind: Secret\n", "already set"},
		{"bad JSON", "a.json", "{}\n{", "document"},
		{"no object", "a.yaml", "- a\n", "document 1 (line 1)"},
		{"item without a name", "a.yaml", "apiVersion: v1\nkind: List\nitems:\n" +
			"- {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\n- {apiVersion: v1, kind: Secret}\n", "item 2"},
		{"twice", "a.yaml", cm("x") + "---\n" + cm("x"), "document 2: ConfigMap x is in document 1 already"},
		{"bad tenant", "a.yaml",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, tenant: A.b}\n", "metadata.tenant"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			objects, err := parse(tc.file, []byte(tc.text))
			if err != nil {
				if tc.want == "" || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %q", err, tc.want)
				}
				return
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.ref().String())
				if _, there := o.Object["metadata"].(map[string]any)["tenant"]; there {
					t.Errorf("%s is applied with metadata.tenant", o.ref())
				}
			}
			if s := strings.Join(got, ", "); s != tc.want {
				t.Errorf("got %q, want %q", s, tc.want)
			}
		})
	}
}

func TestRecordNames(t *testing.T) {
	seen := map[string]string{}
	for _, file := range []string{"a.yaml", "A.yaml", "a-yaml", "sub/a.yaml", "ü.json",
		strings.Repeat("x", 300) + ".yaml", strings.Repeat("x", 301) + ".yaml"} {
		for _, of := range []string{recordCarried, recordFile} {
			name := recordName(of, file)
			if other, ok := seen[name]; ok {
				t.Errorf("%s and %s have the record %s", other, file, name)
			}
			seen[name] = file
			if len(name) > 63 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" ||
				strings.HasSuffix(name, "-") {
				t.Errorf("%q is no good name", name)
			}
		}
	}
}

func TestWithout(t *testing.T) {
	a := ref{Group: "g", Version: "v1", Kind: "K", Namespace: "n", Name: "a"}
	newer, other, tenants := a, a, a
	newer.Version, other.Namespace, tenants.Tenant = "v2", "m", "t1"
	if left := without([]ref{a, other, tenants}, []ref{newer}); len(left) != 2 || left[0] != other ||
		left[1] != tenants {
		t.Errorf("left are %v", left)
	}
}
