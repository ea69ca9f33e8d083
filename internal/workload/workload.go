package workload

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
)

// Type is a type of workload.
type Type string

// The types, which are also the names of the shipped RuntimeClasses and of
// their handlers.
const (
	Container Type = "container"
	VM        Type = "vm"
)

// Annotation names the workload type of a pod, or of all pods of a
// RuntimeClass.
const Annotation = "a4s.io/workload-type"

// HandlerAnnotation is the handler of a pod's RuntimeClass. The pod source
// writes it where the handler is no type, so that images are pulled by the
// runtime that will start them: the kubelet tells the runtimes the annotations
// of the pod of an image, but not its handler.
const HandlerAnnotation = "a4s.io/runtime-handler"

// TenantsAnnotation of a RuntimeClass says which tenants may use it: with the value
// TenantsListed those whose Tenant names it, else all whose Tenant names none.
const (
	TenantsAnnotation = "a4s.io/tenants"
	TenantsListed     = "Listed"
)

// The conditions of a Node that say whether the runtime of a type is ready
// (partial runtime readiness, "Internal data structure"). A node without a
// runtime of the type has no condition.
const (
	ContainerRuntimeReady corev1.NodeConditionType = "ContainerRuntimeReady"
	VMRuntimeReady        corev1.NodeConditionType = "VmRuntimeReady"
)

// ErrUnknownType is an annotation that names no type.
var ErrUnknownType = errors.New("unknown workload type")

// ErrConflict is an annotation that contradicts the pod's RuntimeClass.
var ErrConflict = errors.New("workload type and runtime class contradict each other")

// Types returns every type.
func Types() []Type { return []Type{Container, VM} }

// Parse returns the type of that name, or ErrUnknownType.
func Parse(name string) (Type, error) {
	if t := Type(name); slices.Contains(Types(), t) {
		return t, nil
	}
	names := make([]string, 0, len(Types()))
	for _, t := range Types() {
		names = append(names, string(t))
	}
	return "", fmt.Errorf("%w %q: want %s", ErrUnknownType, name, strings.Join(names, " or "))
}

// Condition is the node condition of the type.
func (t Type) Condition() corev1.NodeConditionType {
	if t == VM {
		return VMRuntimeReady
	}
	return ContainerRuntimeReady
}

// OfPod returns the type of a pod. class is the RuntimeClass that the pod
// names, nil if it names none. It is that of the class, if its handler or its
// annotation names one, and of the pod's annotation; these must not contradict
// each other. Without any, a pod is of containers.
func OfPod(pod *corev1.Pod, class *nodev1.RuntimeClass) (Type, error) {
	own, fromPod, err := annotated(pod.Annotations)
	if err != nil {
		return "", err
	}
	if class == nil {
		return own, nil
	}
	its, fromClass, err := annotated(class.Annotations)
	if err != nil {
		return "", fmt.Errorf("runtime class %q: %w", class.Name, err)
	}
	if !fromClass {
		if t, err := Parse(class.Handler); err == nil {
			its = t
		}
	}
	if fromPod && own != its {
		return "", fmt.Errorf("%w: annotation %s is %q, runtime class %q runs %q", ErrConflict, Annotation,
			own, class.Name, its)
	}
	return its, nil
}

func annotated(annotations map[string]string) (t Type, given bool, err error) {
	name, given := annotations[Annotation]
	if !given {
		return Container, false, nil
	}
	t, err = Parse(name)
	return t, given, err
}
