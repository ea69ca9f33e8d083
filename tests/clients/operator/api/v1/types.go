// Package v1 is the second version of the API of the operator.
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is what the types belong to.
var GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// AddToScheme makes the types known.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Widget is a number of pods and their configuration.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WidgetSpec   `json:"spec"`
	Status WidgetStatus `json:"status,omitempty"`
}

// WidgetSpec is what is wanted.
type WidgetSpec struct {
	Replicas int32 `json:"replicas"`
	Paint    Paint `json:"paint"`
}

// Paint is what the pods look like.
type Paint struct {
	Colour string `json:"colour,omitempty"`
	Coats  int32  `json:"coats,omitempty"`
}

// WidgetStatus is what there is.
type WidgetStatus struct {
	Ready              int32  `json:"ready"`
	Release            string `json:"release,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
}

// WidgetList is a list of them.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Widget `json:"items"`
}

// Wanted is how many pods there should be, and their colour.
func (w *Widget) Wanted() (pods int32, colour string) { return w.Spec.Replicas, w.Spec.Paint.Colour }

// Observe sets the status.
func (w *Widget) Observe(ready int32, release string) {
	w.Status = WidgetStatus{Ready: ready, Release: release, ObservedGeneration: w.Generation}
}

// DeepCopyObject implements runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *WidgetList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Widget, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Widget)
	}
	return &out
}
