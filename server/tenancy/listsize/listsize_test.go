package listsize

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNote(t *testing.T) {
	list := &corev1.PodList{Items: []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default.t1"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
	}}
	Note(t.Context(), list) // nobody wants to know
	ctx, size := With(t.Context())
	if _, _, ok := size.Get(); ok {
		t.Error("something is noted")
	}
	Note(ctx, &corev1.Pod{})
	if _, _, ok := size.Get(); ok {
		t.Error("an object is noted as a list")
	}
	Note(ctx, list)
	if items, names, ok := size.Get(); !ok || items != 2 || names != len("web")+len("default.t1")+len("a") {
		t.Errorf("%d items, names of %d, %t", items, names, ok)
	}
	list.Items = list.Items[1:]
	Note(ctx, list)
	if items, names, ok := size.Get(); !ok || items != 1 || names != 1 {
		t.Errorf("the last counts: %d items, names of %d, %t", items, names, ok)
	}
}
