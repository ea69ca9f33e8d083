package origin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// pods is the change of lists and watches of pods, and of one pod that was
// asked for by name.
type pods struct {
	native podProjector
	// workloads are nil for one pod: the kubelet asks for it to write its
	// status, not to run it.
	workloads *Workloads
	// all says that the answer begins with every pod of the node.
	all bool
}

func (p pods) object(ctx context.Context, obj runtime.Object) (bool, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return p.native.pod(o), nil
	case *corev1.PodList:
		return p.list(ctx, o)
	}
	return false, nil
}

func (p pods) list(ctx context.Context, list *corev1.PodList) (changed bool, err error) {
	if p.workloads != nil && p.all {
		p.workloads.begin()
		defer func() {
			if err == nil {
				p.workloads.end()
			}
		}()
	}
	kept := list.Items[:0]
	for i := range list.Items {
		pod := &list.Items[i]
		now, hold, err := p.pod(ctx, pod)
		if err != nil {
			return false, err
		}
		changed = changed || now || hold
		if !hold {
			kept = append(kept, *pod)
		}
	}
	list.Items = kept
	return changed, nil
}

// pod changes a pod that the kubelet may run. The order matters: a tenant's pod
// is not to see the annotation among its own.
func (p pods) pod(ctx context.Context, pod *corev1.Pod) (changed, hold bool, err error) {
	changed = p.native.pod(pod)
	if p.workloads == nil {
		return changed, false, nil
	}
	typed, hold, err := p.workloads.show(ctx, pod)
	return changed || typed, hold, err
}

func (p pods) event(ctx context.Context, kind watch.EventType, obj runtime.Object) (changed, omit bool, err error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return false, false, nil
	}
	if kind == watch.Bookmark {
		if p.workloads != nil && p.all && pod.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			p.workloads.end()
		}
		return false, false, nil
	}
	changed, omit, err = p.pod(ctx, pod)
	if kind == watch.Deleted && p.workloads != nil && err == nil {
		p.workloads.forget(pod)
	}
	return changed, omit, err
}
