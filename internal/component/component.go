package component

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

// Errors of a component that ended although nobody asked it to.
var (
	// ErrExited means that Run returned without an error.
	ErrExited = errors.New("exited without a reason")
	// ErrAborted means that the component ended its own goroutine, which is
	// what upstream's "log and exit" paths become inside one process.
	ErrAborted = errors.New("aborted itself; its last log line says why")
	// ErrPanicked means that the component panicked.
	ErrPanicked = errors.New("panicked")
)

// Component is one long-running part of the process.
type Component struct {
	// Name identifies the component in logs and in status.
	Name string
	// Critical ends the whole group when the component exits.
	Critical bool
	// StopTimeout bounds how long Stop waits for Run after cancelling its
	// context. Zero means DefaultStopTimeout.
	StopTimeout time.Duration
	// Run does the work until ctx ends and calls ready once it serves.
	// A return before ctx ends counts as an exit, with or without an error.
	Run func(ctx context.Context, ready func()) error
}

// DefaultStopTimeout is how long Stop waits for a component by default.
const DefaultStopTimeout = 30 * time.Second

// brokenStopTimeout bounds how long Stop waits for a component once a critical
// one has exited: what it would finish is not possible any more.
const brokenStopTimeout = 10 * time.Second

// Back-off of restarts: doubles from minBackoff to maxBackoff, and is reset
// once a component ran for resetAfter.
const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 30 * time.Second
	resetAfter = 2 * time.Minute
)

// State is what a Group knows about one component.
type State struct {
	Name     string
	Ready    bool
	Restarts int
	// Failures is how often it exited in a row, each time soon after it was started.
	Failures int
	// LastError is why it last exited, empty if it never did.
	LastError string
	Since     time.Time
}

// Group supervises components. Its zero value is not usable; see NewGroup.
type Group struct {
	log *logrus.Entry

	failed chan error // buffered; carries the first critical failure
	broken atomic.Bool

	mu      sync.Mutex
	running []*supervised
}

type supervised struct {
	Component
	cancel context.CancelFunc
	done   chan struct{}
	ready  chan struct{}

	mu       sync.Mutex
	isReady  bool
	once     sync.Once
	restarts int
	failures int
	lastErr  error
	since    time.Time
}

// NewGroup returns an empty group that logs to log.
func NewGroup(log *logrus.Entry) *Group {
	return &Group{log: log, failed: make(chan error, 1)}
}

// Start runs c under supervision and returns at once. Contexts handed to Run
// carry the values of ctx but not its cancellation: only Stop ends components,
// so that they end in reverse order.
func (g *Group) Start(ctx context.Context, c Component) {
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &supervised{Component: c, cancel: cancel, done: make(chan struct{}),
		ready: make(chan struct{}), since: time.Now()}
	g.mu.Lock()
	g.running = append(g.running, s)
	g.mu.Unlock()
	go g.supervise(runCtx, s)
}

// StartAndWait is Start followed by a wait until the component is ready, it
// fails critically, or ctx ends.
func (g *Group) StartAndWait(ctx context.Context, c Component) error {
	g.Start(ctx, c)
	return g.Wait(ctx, c.Name)
}

// Wait blocks until the named component was ready once. It returns the
// critical failure of any component, or the cause of ctx.
func (g *Group) Wait(ctx context.Context, name string) error {
	s := g.find(name)
	if s == nil {
		return fmt.Errorf("waiting for component %q: it was never started", name)
	}
	select {
	case <-s.ready:
		return nil
	case err := <-g.failed:
		g.failed <- err // keep it for Failed and for other waiters
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", name, context.Cause(ctx))
	}
}

// Failed delivers the failure of a critical component.
func (g *Group) Failed() <-chan error { return g.failed }

// States returns a snapshot of all components in start order.
func (g *Group) States() []State {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]State, 0, len(g.running))
	for _, s := range g.running {
		s.mu.Lock()
		st := State{Name: s.Name, Ready: s.isReady, Restarts: s.restarts, Failures: s.failures,
			Since: s.since}
		if s.lastErr != nil {
			st.LastError = s.lastErr.Error()
		}
		s.mu.Unlock()
		out = append(out, st)
	}
	return out
}

// Stop ends all components in reverse start order, each within its own
// timeout (a short one after a critical failure), and returns the names of
// those that did not end in time.
func (g *Group) Stop() error { return g.stop(time.Time{}) }

// StopBy is Stop that returns at a deadline at the latest. A component has most of the
// time that is left, so that those below it have some as well.
func (g *Group) StopBy(deadline time.Time) error { return g.stop(deadline) }

func (g *Group) stop(deadline time.Time) error {
	g.mu.Lock()
	running := append([]*supervised(nil), g.running...)
	g.mu.Unlock()
	var errs []error
	for i := len(running) - 1; i >= 0; i-- {
		s := running[i]
		s.cancel()
		timeout := s.StopTimeout
		if timeout == 0 {
			timeout = DefaultStopTimeout
		}
		if g.broken.Load() {
			timeout = min(timeout, brokenStopTimeout)
		}
		if !deadline.IsZero() {
			timeout = min(timeout, max(time.Until(deadline), 0)*3/4)
		}
		select {
		case <-s.done:
			g.log.WithField("component", s.Name).Debug("stopped")
		case <-time.After(timeout):
			errs = append(errs, fmt.Errorf("component %s did not stop within %s", s.Name,
				timeout.Round(time.Millisecond)))
		}
	}
	return errors.Join(errs...)
}

func (g *Group) find(name string) *supervised {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.running {
		if s.Name == name {
			return s
		}
	}
	return nil
}

func (g *Group) supervise(ctx context.Context, s *supervised) {
	defer close(s.done)
	log := g.log.WithField("component", s.Name)
	backoff := minBackoff
	for {
		started := time.Now()
		err := runOnce(ctx, s)
		if ctx.Err() != nil {
			if err != nil && !errors.Is(err, context.Canceled) {
				log.WithError(err).Warn("stopped with an error")
			}
			return
		}
		soon := time.Since(started) < resetAfter
		s.markExited(err, soon)
		if final := (*finalError)(nil); s.Critical || errors.As(err, &final) {
			log.WithError(err).Error("critical component exited")
			g.broken.Store(true)
			select {
			case g.failed <- fmt.Errorf("%s: %w", s.Name, err):
			default:
			}
			return
		}
		if !soon {
			backoff = minBackoff
		}
		wait := backoff + rand.N(backoff/4)
		log.WithError(err).WithField("restartIn", wait.Round(time.Millisecond).String()).Error("component exited")
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// runOnce calls Run on a goroutine of its own, so that a panic and a
// runtime.Goexit inside it end the component and nothing else.
func runOnce(ctx context.Context, s *supervised) error {
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel() // nothing of a dead run may outlive it
	err := Contain(s.Name, func() error { return s.Run(runCtx, s.markReady) })
	if err == nil && ctx.Err() == nil {
		err = ErrExited
	}
	return err
}

// Contain runs a function on a goroutine of its own and returns how it ended: a
// panic is ErrPanicked, and the end of the goroutine by itself ErrAborted.
func Contain(name string, run func() error) error {
	result := make(chan error, 1)
	go func() {
		returned := false
		defer func() {
			if returned {
				return
			}
			if p := recover(); p != nil {
				logrus.WithField("component", name).Debugf("panic: %v\n%s", p, debug.Stack())
				result <- fmt.Errorf("%w: %v", ErrPanicked, p)
				return
			}
			result <- ErrAborted
		}()
		err := run()
		returned = true
		result <- err
	}()
	return <-result
}

// finalError is the end of what cannot be started again in its process.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// Final marks the error of a component that cannot be started again in this process,
// because upstream keeps in it what it makes once: it ends the group as that of a
// critical component does, so that what is shown is this reason, and not what a
// second start would say. Of nil it is nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

func (s *supervised) markReady() {
	s.mu.Lock()
	if !s.isReady {
		s.isReady = true
		s.since = time.Now()
	}
	s.mu.Unlock()
	s.once.Do(func() { close(s.ready) })
}

func (s *supervised) markExited(err error, soon bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !soon {
		s.failures = 0
	}
	s.failures++
	s.isReady = false
	s.restarts++
	s.lastErr = err
	s.since = time.Now()
}

// Running is a component that is ready at once.
func Running(name string, run func(context.Context) error) Component {
	return Component{Name: name, Run: func(ctx context.Context, ready func()) error {
		ready()
		return run(ctx)
	}}
}
