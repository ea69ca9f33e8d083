package election

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
)

func newElection() *Election {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return New("one", nil, logrus.NewEntry(l))
}

// worker is a component that tells when it runs and when it has ended.
type worker struct{ began, ended, ready chan struct{} }

func newWorker() *worker {
	return &worker{began: make(chan struct{}, 10), ended: make(chan struct{}, 10), ready: make(chan struct{}, 10)}
}

func (w *worker) component() component.Component {
	return component.Component{Name: "worker", Run: func(ctx context.Context, ready func()) error {
		ready()
		w.began <- struct{}{}
		<-ctx.Done()
		w.ended <- struct{}{}
		return ctx.Err()
	}}
}

func (w *worker) run(t *testing.T, c component.Component) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, func() { w.ready <- struct{}{} }) }()
	return func() {
		cancel()
		select {
		case <-done:
		case <-time.After(2 * time.Minute):
			t.Error("it does not end with its context")
		}
	}
}

func await(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(2 * time.Minute):
		t.Fatalf("waiting until %s", what)
	}
}

func TestOnlyTheLeaderWorks(t *testing.T) {
	e, w := newElection(), newWorker()
	stop := w.run(t, e.Only(w.component()))
	defer stop()
	e.see("two")
	await(t, "a server that stands by is ready", w.ready)
	if len(w.began) > 0 {
		t.Fatal("it works without the lead")
	}
	for range 2 {
		term, end := context.WithCancel(t.Context())
		e.begin(term)
		await(t, "it works once it leads", w.began)
		end()
		e.end()
		await(t, "it ends with the lead", w.ended)
	}
	if len(w.began) > 0 {
		t.Fatal("it works after the lead is lost")
	}
}

func TestTheFirstLeaderIsReadyWhenItWorks(t *testing.T) {
	e, w := newElection(), newWorker()
	stop := w.run(t, e.Only(w.component()))
	defer stop()
	e.see("one") // itself
	e.begin(t.Context())
	await(t, "it works", w.began)
	await(t, "it is ready", w.ready)
}

func TestWithoutOthersThereIsNoElection(t *testing.T) {
	var e *Election
	w := newWorker()
	stop := w.run(t, e.Only(w.component()))
	defer stop()
	await(t, "it works", w.began)
	if _, cancel, err := e.Await(t.Context()); err != nil {
		t.Fatal(err)
	} else {
		cancel()
	}
}
