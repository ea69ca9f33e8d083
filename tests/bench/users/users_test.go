package users

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestPodsCountForTheirPhase(t *testing.T) {
	w := &PodWatch{pods: map[types.UID]*seenPod{}, phases: map[string]*PodCounts{"": {}}}
	start := time.Now()
	after := func(d time.Duration) time.Time { return start.Add(d) }
	pod := func(uid types.UID, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: corev1.PodStatus{Phase: phase}}
	}
	w.Enter("one")
	w.update(pod("a", corev1.PodPending), after(0))
	w.update(pod("b", corev1.PodPending), after(time.Second))
	w.update(pod("a", corev1.PodRunning), after(3*time.Second))
	w.Enter("two")
	w.update(pod("b", corev1.PodRunning), after(2*time.Second)) // of the phase in which it came
	w.update(pod("c", corev1.PodPending), after(4*time.Second))
	w.update(pod("c", corev1.PodRunning), after(5*time.Second))
	w.update(pod("c", corev1.PodRunning), after(6*time.Second)) // once is enough
	w.remove(pod("a", corev1.PodRunning))

	one, two := w.Of("one"), w.Of("two")
	if one.Seen != 2 || !slices.Equal(one.Waits, []time.Duration{time.Second, 3 * time.Second}) {
		t.Errorf("the first phase has %+v", one)
	}
	if two.Seen != 1 || !slices.Equal(two.Waits, []time.Duration{time.Second}) {
		t.Errorf("the second phase has %+v", two)
	}
	if !two.Last.Equal(after(5 * time.Second)) {
		t.Errorf("the last pod ran %v after the start", two.Last.Sub(start))
	}
	if n := w.Present(); n != 2 {
		t.Errorf("%d pods are there, want 2", n)
	}
}

func TestLoadMayNotComeToAStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		// It takes long, but goes on.
		slow := func() int { return int(time.Since(start) / (patience / 2)) }
		if err := AwaitCount(t.Context(), "pods", 5, slow); err != nil {
			t.Error(err)
		}
		if err := AwaitCount(t.Context(), "pods", 5, func() int { return 4 }); err == nil {
			t.Error("a load that stands still is waited for")
		}
	})
}

func TestParallelWorkEndsWithTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	err := InParallel(t.Context(), 3, 1000, func(ctx context.Context, i int) error {
		if i == 5 {
			return broken
		}
		if i > 5 {
			<-ctx.Done()
		}
		return nil
	})
	if !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	if err := InParallel(t.Context(), 3, 10, func(context.Context, int) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestArrivalsAreKept(t *testing.T) {
	a := NewArrivals()
	a.Add("early")
	a.Add("early")
	if err := a.Await(t.Context(), "early"); err != nil {
		t.Error(err)
	}
	synctest.Test(t, func(t *testing.T) {
		a := NewArrivals()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Await(ctx, "never"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("what never comes: %v", err)
		}
	})
}
