package packetfilter

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reason is that of the event on a Node that does not enforce policies.
const Reason = "NetworkPolicyNotEnforced"

// event tells the cluster about this node. The log has it too, so one attempt
// is enough.
func (f *filter) event(ctx context.Context, message string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	now := metav1.Now()
	_, err := f.Client.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: f.NodeName + ".", Namespace: metav1.NamespaceDefault},
		// as the kubelet names it
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: f.NodeName, UID: types.UID(f.NodeName)},
		Reason:         Reason, Message: message, Type: corev1.EventTypeWarning,
		Source:         corev1.EventSource{Component: "a4s", Host: f.NodeName},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		ReportingController: "a4s", ReportingInstance: f.NodeName,
	}, metav1.CreateOptions{})
	if err != nil {
		f.policyLog.WithError(err).Warn("cannot tell the cluster that network policies are not enforced")
	}
}
