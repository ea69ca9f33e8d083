package workload

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOfPod(t *testing.T) {
	class := func(handler, annotation string) *nodev1.RuntimeClass {
		c := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Handler: handler}
		if annotation != "" {
			c.Annotations = map[string]string{Annotation: annotation}
		}
		return c
	}
	for _, tc := range []struct {
		name       string
		annotation string
		class      *nodev1.RuntimeClass
		want       Type
		err        error
	}{
		{name: "neither", want: Container},
		{name: "annotation", annotation: "vm", want: VM},
		{name: "class by handler", class: class("vm", ""), want: VM},
		{name: "class of containers", class: class("container", ""), want: Container},
		{name: "another handler is of containers", class: class("gvisor", ""), want: Container},
		{name: "class by annotation", class: class("kata", "vm"), want: VM},
		{name: "class and annotation agree", annotation: "vm", class: class("vm", ""), want: VM},
		{name: "class and annotation disagree", annotation: "container", class: class("vm", ""), err: ErrConflict},
		{name: "the other way round", annotation: "vm", class: class("runc", ""), err: ErrConflict},
		{name: "unknown", annotation: "unikernel", err: ErrUnknownType},
		{name: "empty", annotation: " ", err: ErrUnknownType},
		{name: "unknown of the class", class: class("x", "unikernel"), err: ErrUnknownType},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			if tc.annotation != "" {
				pod.Annotations = map[string]string{Annotation: tc.annotation}
			}
			got, err := OfPod(pod, tc.class)
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("OfPod = %q, %v; want %q, %v", got, err, tc.want, tc.err)
			}
		})
	}
}
