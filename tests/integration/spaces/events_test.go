package spaces_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/nstest"
)

// TestEventsAboutObjectsWithoutANamespace: a tenant's events about
// cluster-scoped objects are taken where a cluster of one's own takes them, and
// refused where it refuses them.
func TestEventsAboutObjectsWithoutANamespace(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a := p.bareTenant(t, "a")
	for _, space := range []*space{{name: "the system", client: p.admin}, a} {
		for _, c := range []struct {
			namespace, about string // the namespace of the object
			old, new, series bool   // what takes it: core/v1, events.k8s.io/v1, core/v1 with a time of event
		}{
			{"default", "", true, true, true},
			{"kube-system", "", false, true, true},
			{"kube-public", "", false, false, false},
			{"default", "default", true, true, true},
			{"default", "kube-system", false, true, true},
		} {
			object := corev1.ObjectReference{Kind: "ClusterIssuer", APIVersion: "cert-manager.io/v1",
				Name: "letsencrypt", Namespace: c.about}
			if c.about != "" {
				object = corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Name: "web", Namespace: c.about}
			}
			meta := metav1.ObjectMeta{GenerateName: "e-", Namespace: c.namespace}
			now := metav1.NewMicroTime(time.Now())
			check := func(form string, err error, taken bool) {
				t.Helper()
				if taken && err != nil || !taken && !apierrors.IsInvalid(err) {
					t.Errorf("%s, %s in %s about an object in %q: %v", space.name, form, c.namespace, c.about, err)
				}
			}
			made, err := space.client.CoreV1().Events(c.namespace).Create(t.Context(),
				&corev1.Event{ObjectMeta: meta, InvolvedObject: object, Reason: "Ready"}, metav1.CreateOptions{})
			check("core/v1", err, c.old)
			if err == nil {
				made.Count = 2
				if made, err = space.client.CoreV1().Events(c.namespace).Update(t.Context(), made,
					metav1.UpdateOptions{}); err != nil || made.InvolvedObject.Name != object.Name ||
					made.InvolvedObject.Namespace != c.about || made.Namespace != c.namespace {
					t.Errorf("%s, again: %+v, %v", space.name, made, err)
				}
			}
			_, err = space.client.CoreV1().Events(c.namespace).Create(t.Context(),
				&corev1.Event{ObjectMeta: meta, InvolvedObject: object, Reason: "Ready",
					EventTime: now, ReportingController: "example.com/x", ReportingInstance: "x-0", Action: "Checking",
					Type: corev1.EventTypeNormal}, metav1.CreateOptions{})
			check("core/v1 with its time", err, c.series)
			event, err := space.client.EventsV1().Events(c.namespace).Create(t.Context(),
				&eventsv1.Event{ObjectMeta: meta, Regarding: object, Reason: "Ready",
					EventTime: now, ReportingController: "example.com/x", ReportingInstance: "x-0", Action: "Checking",
					Type: corev1.EventTypeNormal}, metav1.CreateOptions{})
			check("events.k8s.io/v1", err, c.new)
			if err == nil {
				event.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: now}
				if _, err := space.client.EventsV1().Events(c.namespace).
					Update(t.Context(), event, metav1.UpdateOptions{}); err != nil {
					t.Errorf("%s, a series: %v", space.name, err)
				}
			}
		}
	}
}
