package nice

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// by is how much nicer than the process lowered threads are: a tenth of the
	// processor time of others that want it, too. All that waits for them, a
	// lock or a collection of garbage, therefore waits a bounded time, which it
	// would not for SCHED_IDLE.
	by = 10
	// nicest is the most that there is.
	nicest = 19
	// most is how many are lowered at once. A goroutine that has its thread for
	// itself keeps it while it waits, and Go ends a process with 10,000.
	most = 128
)

// Threads lowers the priority of threads. None are if it is nil.
type Threads struct {
	low     int // as setpriority(2) has it
	lowered atomic.Int32
}

// New returns nil and why if this process may not raise a priority again that it
// has lowered, for which it needs CAP_SYS_NICE.
func New() (*Threads, error) {
	type result struct {
		t   *Threads
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread()
		t, err := try()
		if err == nil {
			runtime.UnlockOSThread()
		} // else the thread ends with its goroutine: it is too nice for others
		done <- result{t, err}
	}()
	r := <-done
	return r.t, r.err
}

func try() (*Threads, error) {
	base, err := priority()
	if err != nil {
		return nil, err
	}
	t := &Threads{low: min(base+by, nicest)}
	if err := set(t.low); err != nil {
		return nil, err
	}
	if err := set(base); err != nil {
		return nil, err
	}
	return t, nil
}

// priority is the calling thread's.
func priority() (int, error) {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0, fmt.Errorf("getting a thread's priority: %w", err)
	}
	return 20 - raw, nil // the system call's own scale
}

func set(nice int) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
		return fmt.Errorf("setting a thread's priority to %d: %w", nice, err)
	}
	return nil
}

type threadsKey struct{}

// Context marks ctx: what is done for it is not urgent.
func (t *Threads) Context(ctx context.Context) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, threadsKey{}, t)
}

// Lower has the calling goroutine run at low priority until it calls restore, if
// ctx is marked. What it waits for, and goroutines that it starts, have the
// priority that they have.
func Lower(ctx context.Context) (restore func()) {
	t, _ := ctx.Value(threadsKey{}).(*Threads)
	if t == nil {
		return func() {}
	}
	if t.lowered.Add(1) > most {
		t.lowered.Add(-1)
		return func() {}
	}
	runtime.LockOSThread()
	release := func() {
		runtime.UnlockOSThread()
		t.lowered.Add(-1)
	}
	before, err := priority()
	if err == nil {
		err = set(t.low)
	}
	if err != nil { // not on Linux, where both can be done to oneself
		release()
		return func() {}
	}
	return func() {
		_ = set(before) // New did the same
		release()
	}
}

// Handler serves the requests whose contexts are marked at low priority.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer Lower(req.Context())()
		next.ServeHTTP(w, req)
	})
}
