package storage

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	core "k8s.io/kubernetes/pkg/apis/core"
	corev1convert "k8s.io/kubernetes/pkg/apis/core/v1"
	"sigs.k8s.io/randfill"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// TestNodesAreShownAsTheTableSays fills every field of a node and looks for each
// in what a tenant sees.
func TestNodesAreShownAsTheTableSays(t *testing.T) {
	var full corev1.Node
	filler := randfill.NewWithSeed(1).NilChance(0).NumElements(1, 1).MaxDepth(12).Funcs(
		func(m *metav1.ManagedFieldsEntry, c randfill.Continue) { m.Manager = "x" },
	)
	filler.Fill(&full)
	gone := metav1.Unix(1e9, 0)
	full.DeletionTimestamp, full.CreationTimestamp = &gone, gone
	var inside core.Node
	if err := corev1convert.Convert_v1_Node_To_core_Node(&full, &inside, nil); err != nil {
		t.Fatal(err)
	}
	var shown corev1.Node
	if err := corev1convert.Convert_core_Node_To_v1_Node(shownNode(&inside), &shown, nil); err != nil {
		t.Fatal(err)
	}
	decode := func(n *corev1.Node) map[string]any {
		data, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]any
		if err := json.Unmarshal(data, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	was, is := decode(&full), decode(&shown)
	for _, f := range kinds.NodeFields() {
		before, after := at(was, f.Path), at(is, f.Path)
		if before == nil {
			t.Errorf("%s was not filled", f.Path)
		}
		if (f.Hidden == "") != (after != nil && after != "") {
			t.Errorf("%s is %v, hidden because %q", f.Path, after, f.Hidden)
		}
	}
}

// at is what a path leads to, through the first element of lists; nil for
// nothing, and for a struct that is there but has nothing in it.
func at(doc any, path string) any {
	for _, name := range strings.Split(path, ".") {
		if list, ok := doc.([]any); ok {
			if len(list) == 0 {
				return nil
			}
			doc = list[0]
		}
		fields, ok := doc.(map[string]any)
		if !ok {
			return nil
		}
		doc = fields[name]
	}
	if fields, ok := doc.(map[string]any); ok {
		for _, v := range fields {
			if inner, ok := v.(map[string]any); !ok || inner["Port"] != 0.0 {
				return doc
			}
		}
		return nil
	}
	return doc
}
