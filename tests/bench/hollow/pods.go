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
	"k8s.io/client-go/tools/cache"
)

// watchPods does what has to be done about the pods of the node, one after the
// other, until the context ends.
func (n *node) watchPods(ctx context.Context) {
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
		},
	})
	informer.RunWithContext(ctx)
}

// sync tries until the pod is what it has to be.
func (n *node) sync(ctx context.Context, pod *corev1.Pod) {
	for {
		var err error
		switch {
		case pod.DeletionTimestamp != nil:
			err = n.remove(ctx, pod)
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
func (n *node) remove(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	return n.core.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
}

// setRunning patches the status as a kubelet does.
func (n *node) setRunning(ctx context.Context, pod *corev1.Pod) error {
	now := metav1.Now()
	n.started++
	ip := fmt.Sprintf("10.%d.%d.%d", 128+n.number/256, n.number%256, n.started%250+1)
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
