package admission

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	core "k8s.io/kubernetes/pkg/apis/core"
)

func TestBindings(t *testing.T) {
	for _, c := range []struct {
		volume, namespace string
		refused           bool
	}{
		{"pv.t1.tenant", "", false},
		{"pv.t1.tenant", "default.t1", false},
		{"pv.t1.tenant", "default.t2", true},
		{"pv.t1.tenant", "default", true},
		{"pv", "default.t2", false},
		{"pv", "default", false},
	} {
		volume := &core.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.volume}}
		if c.namespace != "" {
			volume.Spec.ClaimRef = &core.ObjectReference{Namespace: c.namespace, Name: "data"}
		}
		attr := admission.NewAttributesRecord(volume, nil, schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolume"}, "", c.volume,
			schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}, "", admission.Update, nil, false, nil)
		if err := checkBinding(attr); (err != nil) != c.refused {
			t.Errorf("%s for a claim in %q: %v", c.volume, c.namespace, err)
		}
	}
}
