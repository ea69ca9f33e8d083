package reconcile

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
)

// DirectEvents writes each event at once: who ends soon has no time for a queue of them.
func DirectEvents(ctx context.Context, core kubernetes.Interface) Events { return direct{ctx, core} }

type direct struct {
	ctx  context.Context
	core kubernetes.Interface
}

// Event implements Events. One that cannot be written is lost, as with every recorder of events.
func (d direct) Event(about runtime.Object, kind, reason, message string) {
	of, ok := about.(*corev1.ObjectReference)
	if !ok {
		return
	}
	now := metav1.Now()
	name := fmt.Sprintf("%s.%x", of.Name, now.UnixNano())
	_, _ = d.core.CoreV1().Events(of.Namespace).Create(d.ctx, &corev1.Event{ //nolint:errcheck // see above
		ObjectMeta:     metav1.ObjectMeta{Namespace: of.Namespace, Name: name},
		InvolvedObject: *of, Reason: reason, Message: message, Type: kind, Count: 1,
		FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: ManagedBy}, ReportingController: ManagedBy,
	}, metav1.CreateOptions{})
}
