package users

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

// PodWatch sees all pods of a side, and how long each takes until it runs.
type PodWatch struct {
	mu     sync.Mutex
	phase  string
	pods   map[types.UID]*seenPod
	phases map[string]*PodCounts
}

type seenPod struct {
	at            time.Time
	placed, ended bool
	counts        *PodCounts // of the phase in which it was made
}

// PodCounts are those of the pods that were made in one phase.
type PodCounts struct {
	Seen, Failed int
	// Places are how long those took that have a node.
	Places []time.Duration
	// Waits are how long those took that run, Last is when the last one did.
	Waits []time.Duration
	Last  time.Time
}

// WatchPods begins to watch.
func WatchPods(ctx context.Context, client rest.Interface) (*PodWatch, error) {
	w := &PodWatch{pods: map[types.UID]*seenPod{}, phases: map[string]*PodCounts{"": {}}}
	update := func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok {
			w.update(pod, time.Now())
		}
	}
	return w, Follow(ctx, client, Resource{Plural: "pods", Example: &corev1.Pod{}}, cache.ResourceEventHandlerFuncs{
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

func (w *PodWatch) update(pod *corev1.Pod, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pods[pod.UID]
	if p == nil {
		p = &seenPod{at: now, counts: w.phases[w.phase]}
		p.counts.Seen++
		w.pods[pod.UID] = p
	}
	if !p.placed && pod.Spec.NodeName != "" {
		p.placed = true
		p.counts.Places = append(p.counts.Places, now.Sub(p.at))
	}
	switch {
	case p.ended:
	case pod.Status.Phase == corev1.PodFailed:
		p.ended = true
		p.counts.Failed++
	case pod.Status.Phase == corev1.PodRunning:
		p.ended = true
		p.counts.Waits = append(p.counts.Waits, now.Sub(p.at))
		p.counts.Last = now
	}
}

func (w *PodWatch) remove(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, pod.UID)
}

// Enter begins a phase: pods that are seen from now on are counted as its own.
func (w *PodWatch) Enter(phase string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase, w.phases[phase] = phase, &PodCounts{}
}

// Of returns the counts of a phase, its times in order.
func (w *PodWatch) Of(phase string) PodCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := *w.phases[phase]
	c.Places, c.Waits = slices.Sorted(slices.Values(c.Places)), slices.Sorted(slices.Values(c.Waits))
	return c
}

// Present is how many pods there are.
func (w *PodWatch) Present() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pods)
}

// AwaitRunning returns when so many pods of a phase run.
func (w *PodWatch) AwaitRunning(ctx context.Context, phase string, want int) error {
	return AwaitCount(ctx, "pods that run", want, func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.phases[phase].Waits)
	})
}

// AwaitAll returns when so many pods run, of whatever phase.
func (w *PodWatch) AwaitAll(ctx context.Context, want int) error {
	return AwaitCount(ctx, "pods that run", want, func() (n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, p := range w.pods {
			if p.ended {
				n++
			}
		}
		return n
	})
}

// AwaitLeft returns when all pods of a phase are gone.
func (w *PodWatch) AwaitLeft(ctx context.Context, phase string) error {
	return AwaitCount(ctx, "pods that are left", 0, func() (n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, p := range w.pods {
			if p.counts == w.phases[phase] {
				n++
			}
		}
		return n
	})
}

// AwaitNone returns when all pods are gone.
func (w *PodWatch) AwaitNone(ctx context.Context) error {
	return AwaitCount(ctx, "pods that are left", 0, w.Present)
}

// AwaitCount returns when the count is as wanted. It may take as long as it likes,
// but not stand still.
func AwaitCount(ctx context.Context, what string, want int, count func() int) error {
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
