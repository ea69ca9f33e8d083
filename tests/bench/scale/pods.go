package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	// patience is how long a load may come to a stand.
	patience = 3 * time.Minute
	// glance is how often somebody looks who waits for pods.
	glance = 50 * time.Millisecond
)

// podWatch sees all pods of a side, and how long each takes until it runs.
type podWatch struct {
	mu     sync.Mutex
	phase  string
	pods   map[types.UID]*seenPod
	phases map[string]*podCounts
}

type seenPod struct {
	at              time.Time
	placed, running bool
	counts          *podCounts // of the phase in which it was made
}

// podCounts are those of the pods that were made in one phase.
type podCounts struct {
	seen int
	// places are how long those took that have a node.
	places []time.Duration
	// waits are how long those took that run, last is when the last one did.
	waits []time.Duration
	last  time.Time
}

// watchPods begins to watch.
func watchPods(ctx context.Context, client rest.Interface) (*podWatch, error) {
	w := &podWatch{pods: map[types.UID]*seenPod{}, phases: map[string]*podCounts{"": {}}}
	update := func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok {
			w.update(pod, time.Now())
		}
	}
	return w, follow(ctx, client, resource{plural: "pods", example: &corev1.Pod{}}, cache.ResourceEventHandlerFuncs{
		AddFunc:    update,
		UpdateFunc: func(_, obj any) { update(obj) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if pod, ok := obj.(*corev1.Pod); ok {
				w.remove(pod)
			}
		},
	})
}

func (w *podWatch) update(pod *corev1.Pod, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pods[pod.UID]
	if p == nil {
		p = &seenPod{at: now, counts: w.phases[w.phase]}
		p.counts.seen++
		w.pods[pod.UID] = p
	}
	if !p.placed && pod.Spec.NodeName != "" {
		p.placed = true
		p.counts.places = append(p.counts.places, now.Sub(p.at))
	}
	if !p.running && pod.Status.Phase == corev1.PodRunning {
		p.running = true
		p.counts.waits = append(p.counts.waits, now.Sub(p.at))
		p.counts.last = now
	}
}

func (w *podWatch) remove(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, pod.UID)
}

// enter begins a phase: pods that are seen from now on are counted as its own.
func (w *podWatch) enter(phase string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase, w.phases[phase] = phase, &podCounts{}
}

// of returns the counts of a phase, its times in order.
func (w *podWatch) of(phase string) podCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := *w.phases[phase]
	c.places, c.waits = slices.Sorted(slices.Values(c.places)), slices.Sorted(slices.Values(c.waits))
	return c
}

// present is how many pods there are.
func (w *podWatch) present() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pods)
}

// awaitRunning returns when so many pods of a phase run.
func (w *podWatch) awaitRunning(ctx context.Context, phase string, want int) error {
	return awaitCount(ctx, "pods that run", want, func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.phases[phase].waits)
	})
}

// awaitAll returns when so many pods run, of whatever phase.
func (w *podWatch) awaitAll(ctx context.Context, want int) error {
	return awaitCount(ctx, "pods that run", want, func() (n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, p := range w.pods {
			if p.running {
				n++
			}
		}
		return n
	})
}

// awaitNone returns when all pods are gone.
func (w *podWatch) awaitNone(ctx context.Context) error {
	return awaitCount(ctx, "pods that are left", 0, w.present)
}

// awaitCount returns when the count is as wanted. It may take as long as it likes,
// but not stand still.
func awaitCount(ctx context.Context, what string, want int, count func() int) error {
	last, since := count(), time.Now()
	for last != want {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(glance):
		}
		if now := count(); now != last {
			last, since = now, time.Now()
		} else if time.Since(since) > patience {
			return fmt.Errorf("%s: %d since %v, not %d", what, now, patience, want)
		}
	}
	return nil
}
