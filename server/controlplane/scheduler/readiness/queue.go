package readiness

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/a4s-io/a4s/internal/workload"
)

// EventsToRegister implements fwk.EnqueueExtensions. What is not here never
// wakes a pod that this plugin refused.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node,
			ActionType: fwk.Add | fwk.UpdateNodeCondition | fwk.UpdateNodeAnnotation}, QueueingHintFn: p.afterNode},
		{Event: fwk.ClusterEvent{Resource: runtimeClasses, ActionType: fwk.Add | fwk.Update},
			QueueingHintFn: afterClass},
		// There is no finer event for annotations.
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Update}, QueueingHintFn: afterPod},
	}, nil
}

// afterNode wakes a pod if the node can run it now and could not before.
func (p *Plugin) afterNode(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	node, ok := newObj.(*corev1.Node)
	if !ok {
		return fwk.Queue, fmt.Errorf("an event about a node has a %T", newObj)
	}
	t, err := typeOf(pod, p.cached)
	if errors.Is(err, errUnresolvable) {
		return fwk.QueueSkip, nil
	}
	if err != nil {
		return fwk.Queue, err
	}
	if notReadyReason(t, pod, node) != "" {
		return fwk.QueueSkip, nil
	}
	if old, ok := oldObj.(*corev1.Node); ok && old != nil && notReadyReason(t, pod, old) == "" {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// afterClass wakes the pods of a RuntimeClass that came or changed.
func afterClass(_ klog.Logger, pod *corev1.Pod, _, newObj any) (fwk.QueueingHint, error) {
	class, err := meta.Accessor(newObj)
	if err != nil {
		return fwk.Queue, fmt.Errorf("an event about a runtime class: %w", err)
	}
	if name := pod.Spec.RuntimeClassName; name == nil || *name != class.GetName() {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// afterPod wakes a pod whose own annotation changed.
func afterPod(_ klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, ok := oldObj.(*corev1.Pod)
	after, ok2 := newObj.(*corev1.Pod)
	if !ok || !ok2 {
		return fwk.QueueSkip, nil // pods that come or go
	}
	if pod.UID != after.UID || before.Annotations[workload.Annotation] == after.Annotations[workload.Annotation] {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}
