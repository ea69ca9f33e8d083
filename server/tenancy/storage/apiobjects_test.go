package storage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// TestWatchOfTheAPIEndsWithEitherPart: both parts end when their time is over,
// whichever comes first.
func TestWatchOfTheAPIEndsWithEitherPart(t *testing.T) {
	for _, first := range []string{"own", "stored"} {
		own, stored := watch.NewFakeWithChanSize(1, false), watch.NewFakeWithChanSize(1, false)
		w := &apiWatch{own: own, stored: stored, events: make(chan watch.Event), stop: make(chan struct{})}
		go w.run(t.Context(), false, func(obj runtime.Object) runtime.Object { return obj.DeepCopyObject() })
		stored.Add(&corev1.Service{})
		if event, ok := <-w.ResultChan(); !ok || event.Type != watch.Added {
			t.Errorf("the object of the API: %v, %t", event, ok)
		}
		if first == "own" {
			own.Stop()
		} else {
			stored.Stop()
		}
		if event, ok := <-w.ResultChan(); ok {
			t.Errorf("when %s has ended there is %v", first, event)
		}
	}
}
