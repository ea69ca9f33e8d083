package serving

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clientset "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// answers is a server that answers each write with a copy of its own, as one does that is
// reached by a network.
type answers struct {
	clientset.CustomResourceDefinitionInterface
}

// CustomResourceDefinitions implements clientset.CustomResourceDefinitionsGetter.
func (a answers) CustomResourceDefinitions() clientset.CustomResourceDefinitionInterface { return a }

// UpdateStatus implements clientset.CustomResourceDefinitionInterface.
func (answers) UpdateStatus(
	_ context.Context, crd *apiextensionsv1.CustomResourceDefinition, _ metav1.UpdateOptions,
) (*apiextensionsv1.CustomResourceDefinition, error) {
	return crd.DeepCopy(), nil
}

// withFields is a definition with so many fields.
func withFields(many int) *apiextensionsv1.CustomResourceDefinition {
	properties := map[string]apiextensionsv1.JSONSchemaProps{}
	for i := range many {
		properties[fmt.Sprint("field", i)] = apiextensionsv1.JSONSchemaProps{Type: "string", Description: "what it is"}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "foos.example.com"}}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1",
		Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties},
		}}}
	return crd
}

// TestAnswersShareTheirSchemas: what the controller of names keeps of definitions with the
// same schema, of whichever tenant, is one schema.
func TestAnswersShareTheirSchemas(t *testing.T) {
	client, crd := &pooled{answers{}, interning.New()}, withFields(3)
	var kept []*apiextensionsv1.JSONSchemaProps
	for range 2 { // two tenants
		updated, err := client.CustomResourceDefinitions().UpdateStatus(t.Context(), crd, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, updated.Spec.Versions[0].Schema.OpenAPIV3Schema)
	}
	if kept[0] != kept[1] {
		t.Error("there are two of one schema")
	}
}

// BenchmarkKeptAnswers weighs what is kept of the definition of another tenant with the
// same schema, without the pool and with it.
func BenchmarkKeptAnswers(b *testing.B) {
	const tenants = 20
	crd := withFields(6000)
	for name, client := range map[string]clientset.CustomResourceDefinitionsGetter{
		"alone": answers{}, "pooled": &pooled{answers{}, interning.New()},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				first, err := client.CustomResourceDefinitions().UpdateStatus(b.Context(), crd, metav1.UpdateOptions{})
				if err != nil {
					b.Fatal(err)
				}
				kept, before := []any{first}, heap()
				for range tenants {
					next, err := client.CustomResourceDefinitions().UpdateStatus(b.Context(), crd,
						metav1.UpdateOptions{})
					if err != nil {
						b.Fatal(err)
					}
					kept = append(kept, next)
				}
				b.ReportMetric(float64(int64(heap()-before))/tenants, "kept-B/CRD")
				runtime.KeepAlive(kept)
			}
		})
	}
}

// heap is what is in use after everything else was collected.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
