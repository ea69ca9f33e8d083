package clients

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/kube-openapi/pkg/util/proto"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// TestStructuredMerge reconciles as tools do that compare and merge on their own
// side, by the schema that the server gives them: what is read from a tenant has
// no field that the schema lacks, and what such a tool writes is what it meant.
func TestStructuredMerge(t *testing.T) {
	t.Parallel()
	for _, s := range []*space{acme, globex} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			testStructuredMerge(t, s)
		})
	}
}

func testStructuredMerge(t *testing.T, s *space) {
	cfg := s.config(t, s.prefixed)
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	document, err := disco.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	models, err := proto.NewOpenAPIData(document)
	if err != nil {
		t.Fatal(err)
	}
	parser, err := managedfields.NewGVKParser(models, false)
	if err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	maps := dyn.Resource(kind.GroupVersion().WithResource("configmaps")).Namespace(metav1.NamespaceDefault)
	want := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "merged", "namespace": metav1.NamespaceDefault,
			"labels": map[string]any{"app": "web"}},
		"data": map[string]any{"ours": "1"},
	}}
	const ours = "reconciler"
	if _, err := maps.Apply(t.Context(), "merged", want, metav1.ApplyOptions{FieldManager: ours}); err != nil {
		t.Fatal(err)
	}
	theirs := want.DeepCopy()
	theirs.Object["data"] = map[string]any{"theirs": "1"}
	if _, err := maps.Apply(t.Context(), "merged", theirs, metav1.ApplyOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	live, err := maps.Get(t.Context(), "merged", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	of := parser.Type(kind)
	if of == nil {
		t.Fatalf("the schema has no %v", kind)
	}
	before, err := of.FromUnstructured(live.Object, typed.AllowDuplicates)
	if err != nil {
		t.Fatalf("what the server has does not match its schema: %v", err)
	}
	wanted, err := of.FromUnstructured(want.Object)
	if err != nil {
		t.Fatal(err)
	}
	after, err := before.Merge(wanted)
	if err != nil {
		t.Fatal(err)
	}
	switch difference, err := before.Compare(after); {
	case err != nil:
		t.Fatal(err)
	case !difference.IsSame():
		t.Errorf("what was applied is not there: %v", difference)
	}

	extractor, err := applymeta.NewUnstructuredExtractor(disco)
	if err != nil {
		t.Fatal(err)
	}
	extracted, err := extractor.Extract(live, ours)
	if err != nil {
		t.Fatalf("extracting what %s has applied: %v", ours, err)
	}
	data, _, err := unstructured.NestedStringMap(extracted.Object, "data")
	if err != nil || len(data) != 1 || data["ours"] != "1" {
		t.Errorf("%s has applied %v (%v)", ours, data, err)
	}

	// An object that was exported goes to another tenant as it is.
	moved(t, s, live)
}

// moved creates what was read in one tenant in the other.
func moved(t *testing.T, from *space, exported *unstructured.Unstructured) {
	t.Helper()
	to, name := acme, "from-the-second"
	if from == acme {
		to, name = globex, "from-the-first"
	}
	dyn, err := dynamic.NewForConfig(to.config(t, to.prefixed))
	if err != nil {
		t.Fatal(err)
	}
	copied := exported.DeepCopy()
	copied.SetName(name)
	copied.SetResourceVersion("")
	maps := dyn.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(metav1.NamespaceDefault)
	if _, err := maps.Create(t.Context(), copied, metav1.CreateOptions{}); err != nil {
		t.Fatalf("what %s exported is refused in %s: %v", from.name, to.name, err)
	}
	client := from.client(t).CoreV1().ConfigMaps(metav1.NamespaceDefault)
	eventually(t, "nothing to be written where it came from", func(ctx context.Context) error {
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}
