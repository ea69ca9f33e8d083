package hollow

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
)

// source is a server that has pods of a node.
type source struct {
	*node
	core coreclient.CoreV1Interface
}

// informer does, while it runs, what has to be done about the pods of the node, one after
// the other.
func (n *source) informer(ctx context.Context) cache.Controller {
	bound := fields.OneTermEqualSelector("spec.nodeName", n.name)
	sync := func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok {
			n.sync(ctx, pod)
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(n.core.RESTClient(), "pods", metav1.NamespaceAll, bound),
		ObjectType:    &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    sync,
			UpdateFunc: func(_, obj any) { sync(obj) },
			DeleteFunc: func(obj any) {
				if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
					obj = last.Obj
				}
				if pod, ok := obj.(*corev1.Pod); ok {
					n.room.leave(pod)
				}
			},
		},
	})
	return informer
}

// sync tries until the pod is what it has to be.
func (n *source) sync(ctx context.Context, pod *corev1.Pod) {
	for {
		var err error
		switch {
		case pod.DeletionTimestamp != nil:
			n.room.leave(pod)
			err = n.remove(ctx, pod)
		case pod.Status.Phase == corev1.PodPending && !n.room.enter(pod):
			err = n.setStatus(ctx, pod, corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu",
				Message: "Pod was rejected: Node didn't have enough resource: cpu"})
		case pod.Status.Phase == corev1.PodPending:
			err = n.setRunning(ctx, pod)
		}
		// A pod that went, or that another one of its name followed, is done.
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || ctx.Err() != nil {
			return
		}
		n.failures.add(fmt.Errorf("pod %s/%s on %s: %w", pod.Namespace, pod.Name, n.name, err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// remove takes the pod away, as a kubelet does when its containers have ended.
func (n *source) remove(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	return n.core.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
}

// setRunning says that the pod runs.
func (n *source) setRunning(ctx context.Context, pod *corev1.Pod) error {
	now := metav1.Now()
	ip, err := n.podIP(ctx)
	if err != nil {
		return err
	}
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now,
		HostIP: n.ip(), HostIPs: []corev1.HostIP{{IP: n.ip()}}, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
	}
	for _, t := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now,
		})
	}
	yes := true
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: "hollow://" + string(pod.UID) + "/" + c.Name,
			Ready: true, Started: &yes,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return n.setStatus(ctx, pod, status)
}

// setStatus patches the status as a kubelet does.
func (n *source) setStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   status,
	})
	if err != nil {
		return err
	}
	pods := n.core.Pods(pod.Namespace)
	_, err = pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
