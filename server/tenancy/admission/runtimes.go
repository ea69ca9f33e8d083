package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodeclient "k8s.io/client-go/kubernetes/typed/node/v1"
	nodelisters "k8s.io/client-go/listers/node/v1"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/workload"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// runtimeClasses are those of the cluster.
type runtimeClasses struct {
	lister nodelisters.RuntimeClassLister
	client nodeclient.RuntimeClassInterface
}

// of is the class that a pod names, nil if it names none. One that was made just
// now is looked for where it is stored, as upstream's plugin does.
func (r runtimeClasses) of(ctx context.Context, pod *core.Pod) (*nodev1.RuntimeClass, error) {
	if pod.Spec.RuntimeClassName == nil {
		return nil, nil
	}
	return r.get(ctx, *pod.Spec.RuntimeClassName)
}

func (r runtimeClasses) get(ctx context.Context, name string) (*nodev1.RuntimeClass, error) {
	class, err := r.lister.Get(name)
	if apierrors.IsNotFound(err) {
		class, err = r.client.Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the RuntimeClass %s: %w", name, err)
	}
	return class, nil
}

// runtimes judges what pods say of what runs them.
type runtimes struct {
	permits
	classes runtimeClasses
}

// set has a new pod without a RuntimeClass get the one that its space has
// for it: the first of the allowance, and for a type that an annotation names the
// first of that type. Then upstream's plugin adds the overhead of the class, which
// scheduler, quotas and limits count, and which the annotation alone would not have.
func (g runtimes) set(ctx context.Context, tenant string, pod *core.Pod) error {
	if pod.Spec.RuntimeClassName != nil {
		return nil
	}
	classes, err := g.allowed(ctx, tenant, allowances.RuntimeClasses)
	if err != nil {
		return err
	}
	named, isNamed := pod.Annotations[workload.Annotation]
	if !classes.Narrows() {
		if workload.Type(named) == workload.VM {
			pod.Spec.RuntimeClassName = new(string(workload.VM))
		}
		return nil
	}
	for _, name := range classes.Items {
		if isNamed {
			class, err := g.classes.get(ctx, name)
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			if t, err := workload.OfPod(&corev1.Pod{}, class); class == nil || err != nil || string(t) != named {
				continue
			}
		}
		pod.Spec.RuntimeClassName = &name
		return nil
	}
	return nil // checkClass says why not
}

// check judges a new pod, old being nil, or what has changed.
func (g runtimes) check(ctx context.Context, tenant string, pod, old *core.Pod) error {
	if old == nil {
		if err := g.checkClass(ctx, tenant, pod); err != nil {
			return err
		}
	}
	return g.checkType(ctx, pod, old)
}

// checkType refuses a type of workload that the RuntimeClass of the pod does not
// say: nodes read it when they start the pod, and again when they start themselves.
// Old is nil for a new pod; of another one only a change of the type is judged.
func (g runtimes) checkType(ctx context.Context, pod, old *core.Pod) error {
	if old != nil && old.Annotations[workload.Annotation] == pod.Annotations[workload.Annotation] {
		return nil
	}
	class, err := g.classes.of(ctx, pod)
	if err != nil {
		return err
	}
	t, err := workload.OfPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: pod.Annotations}}, class)
	if err != nil {
		return err
	}
	if class == nil && t != workload.Container {
		return fmt.Errorf("the annotation %s is %s, and the pod has no RuntimeClass of this type: name one in "+
			"spec.runtimeClassName of a new pod, so that what the type takes besides is counted",
			workload.Annotation, t)
	}
	return nil
}

// checkClass keeps new pods to the classes that are allowed. A pod without
// one runs on the kernel that all share, so where there is a list it needs one.
func (g runtimes) checkClass(ctx context.Context, tenant string, pod *core.Pod) error {
	classes, err := g.allowed(ctx, tenant, allowances.RuntimeClasses)
	if err != nil {
		return err
	}
	if !classes.Narrows() {
		return g.checkListed(ctx, pod, classes)
	}
	switch name := pod.Spec.RuntimeClassName; {
	case name == nil && pod.Annotations[workload.Annotation] != "":
		return fmt.Errorf("none of the RuntimeClasses of this space (%s) is of the type %s, which the annotation "+
			"%s names",
			classes, pod.Annotations[workload.Annotation], workload.Annotation)
	case name == nil:
		return fmt.Errorf("spec.runtimeClassName is missing: name one of %s", classes)
	case !classes.Has(*name):
		return fmt.Errorf("the RuntimeClass %s is not one of this space's: %s", *name, classes)
	}
	return nil
}

// checkListed refuses a class that only tenants may have whose list names it.
func (g runtimes) checkListed(ctx context.Context, pod *core.Pod, classes allowances.List) error {
	class, err := g.classes.of(ctx, pod)
	if err != nil || class == nil || class.Annotations[workload.TenantsAnnotation] != workload.TenantsListed ||
		classes.Has(class.Name) {
		return err
	}
	return fmt.Errorf("the RuntimeClass %s is for tenants whose list of RuntimeClasses names it: ask the "+
		"administrators of the cluster", class.Name)
}
