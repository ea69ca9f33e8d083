package owners

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Events is the client that the collector writes its events with.
func Events(inner kubernetes.Interface) kubernetes.Interface { return events{inner} }

type events struct{ kubernetes.Interface }

// CoreV1 implements kubernetes.Interface.
func (e events) CoreV1() typedcorev1.CoreV1Interface { return eventsCore{e.Interface.CoreV1()} }

type eventsCore struct{ typedcorev1.CoreV1Interface }

// Events implements typedcorev1.EventsGetter.
func (e eventsCore) Events(namespace string) typedcorev1.EventInterface {
	return sink{e.CoreV1Interface.Events(namespace)}
}

// sink writes events with the UIDs of the API.
type sink struct{ typedcorev1.EventInterface }

// CreateWithEventNamespace implements typedcorev1.EventExpansion.
func (s sink) CreateWithEventNamespace(e *corev1.Event) (*corev1.Event, error) {
	//lint:ignore SA1019 upstream's sink calls it
	return s.EventInterface.CreateWithEventNamespace(restored(e))
}

// UpdateWithEventNamespace implements typedcorev1.EventExpansion.
func (s sink) UpdateWithEventNamespace(e *corev1.Event) (*corev1.Event, error) {
	//lint:ignore SA1019 upstream's sink calls it
	return s.EventInterface.UpdateWithEventNamespace(restored(e))
}

// PatchWithEventNamespace implements typedcorev1.EventExpansion.
func (s sink) PatchWithEventNamespace(e *corev1.Event, data []byte) (*corev1.Event, error) {
	//lint:ignore SA1019 upstream's sink calls it
	return s.EventInterface.PatchWithEventNamespace(restored(e), data)
}

func restored(e *corev1.Event) *corev1.Event {
	tenant, _, ok := strings.Cut(string(e.InvolvedObject.UID), separator)
	if !ok {
		return e
	}
	e = e.DeepCopy()
	e.InvolvedObject.UID = unqualify(e.InvolvedObject.UID)
	e.Message = strings.ReplaceAll(e.Message, "uid: "+tenant+separator, "uid: ")
	return e
}
