package objectfile

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Pauses between a change of pods and its way to the disk: a pod that a file lacks would be
// ended, while a status is reported again.
const (
	Soon  = 200 * time.Millisecond
	Later = 5 * time.Second
)

// Matters reports whether a change decides if a pod runs.
func Matters(old, obj runtime.Object) bool {
	a, ok := old.(*corev1.Pod)
	b, isPod := obj.(*corev1.Pod)
	return ok && isPod && (a.UID != b.UID || a.Status.Phase != b.Status.Phase ||
		(a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil))
}

// Pending are the files that are to be written, each at a time of its own. Its lock is the
// innermost one: any other may be held by who marks a file.
type Pending[File comparable] struct {
	wake chan struct{}
	mu   sync.Mutex
	due  map[File]time.Time
}

// NewPending has nothing to be written.
func NewPending[File comparable]() *Pending[File] {
	return &Pending[File]{wake: make(chan struct{}, 1), due: map[File]time.Time{}}
}

// Mark asks for a file to be written after a pause, or before if that was asked for.
func (p *Pending[File]) Mark(f File, pause time.Duration) {
	p.mu.Lock()
	if due, ok := p.due[f]; !ok || time.Now().Add(pause).Before(due) {
		p.due[f] = time.Now().Add(pause)
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // a change is waiting already
	}
}

// Forget takes back what was asked for some files.
func (p *Pending[File]) Forget(some func(File) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for f := range p.due {
		if some(f) {
			delete(p.due, f)
		}
	}
}

// Run calls write for each file in time until ctx ends, and then for the rest.
func (p *Pending[File]) Run(ctx context.Context, write func(File)) {
	for {
		var due <-chan time.Time
		files, next := p.take(func(at time.Time) bool { return !at.After(time.Now()) })
		for _, f := range files {
			write(f)
		}
		if !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			rest, _ := p.take(func(time.Time) bool { return true })
			for _, f := range rest {
				write(f)
			}
			return
		case <-p.wake:
		case <-due:
		}
	}
}

// take returns the files whose time counts, and when the next one is due.
func (p *Pending[File]) take(now func(time.Time) bool) (files []File, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for f, at := range p.due {
		if now(at) {
			files = append(files, f)
			delete(p.due, f)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return files, next
}
