package origin

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Reason is that of the status and the event of a refused pod. The scheduler's
// plugin has the same name.
const Reason = "NodeRuntimeReadiness"

// refuse says in the API that the pod will not run here, as the kubelet does
// with pods that it rejects: with a status that is final, and an event. Its
// controller makes another one, with back-off.
func (w *Workloads) refuse(pod *corev1.Pod, problem string) {
	log := w.o.Log.WithField("pod", pod.Namespace+"/"+pod.Name)
	message := "Pod was rejected: " + problem
	patch, err := json.Marshal(map[string]any{
		// Another pod may have taken the name.
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"phase": corev1.PodFailed, "reason": Reason, "message": message},
	})
	if err != nil {
		log.WithError(err).Error("encoding the refusal of a pod")
		return
	}
	pause := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 1 << 30,
		Cap: 30 * time.Second}
	for {
		_, err := w.o.Client.CoreV1().Pods(pod.Namespace).Patch(w.ctx, pod.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
		if err == nil {
			break
		}
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return // it is gone
		}
		log.WithError(err).Info("cannot refuse a pod yet; trying again")
		select {
		case <-time.After(pause.Step()):
		case <-w.ctx.Done():
			return
		}
	}
	log.Warn(message)
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: fmt.Sprintf("%s.%x", pod.Name, now.UnixNano())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			ResourceVersion: pod.ResourceVersion,
		},
		Type: corev1.EventTypeWarning, Reason: Reason, Message: message,
		Source:              corev1.EventSource{Component: "kubelet", Host: w.o.NodeName},
		ReportingController: "kubelet", ReportingInstance: w.o.NodeName,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if _, err := w.o.Client.CoreV1().Events(pod.Namespace).Create(w.ctx, event, metav1.CreateOptions{}); err != nil {
		log.WithError(err).Info("recording the event about a refused pod")
	}
}
