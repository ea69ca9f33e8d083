package health

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// Events returns a function for OnChange that writes Events about an object: a
// Node, or a namespace for a server without one.
func Events(
	client corev1client.EventsGetter, scheme *runtime.Scheme, about corev1.ObjectReference, node string,
) func(added, gone []Problem) {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: client.Events("")})
	recorder := broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "a4s", Host: node})
	return func(added, gone []Problem) {
		for _, p := range added {
			recorder.Eventf(&about, corev1.EventTypeWarning, reason(p.Code), "%s. Fix: %s", p.Line(), p.Fix)
		}
		for _, p := range gone {
			recorder.Eventf(&about, corev1.EventTypeNormal, reason(p.Code)+"Solved", "%s", p.Line())
		}
	}
}

// AboutNode is the object that Events of a node are about.
func AboutNode(name string) corev1.ObjectReference {
	// the UID is what the kubelet uses
	return corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name, UID: types.UID(name)}
}

// AboutSystem is the object that Events of a server without a node are about.
func AboutSystem() corev1.ObjectReference {
	return corev1.ObjectReference{Kind: "Namespace", APIVersion: "v1", Name: metav1.NamespaceSystem,
		Namespace: metav1.NamespaceSystem}
}

// reason is a code in the form of reasons of Events.
func reason(code Code) string {
	var b strings.Builder
	for word := range strings.SplitSeq(string(code), "-") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
