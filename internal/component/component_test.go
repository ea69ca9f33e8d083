package component

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
)

func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// exits are the ways in which a component can die without being asked to.
func TestExitIsReportedAndRestartedWithoutTheOthers(t *testing.T) {
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		die  func() error
		want error
	}{
		"error":  {func() error { return boom }, boom},
		"return": {func() error { return nil }, ErrExited},
		"goexit": {func() error { runtime.Goexit(); return nil }, ErrAborted},
		"panic":  {func() error { panic("x") }, ErrPanicked},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			g := NewGroup(quiet())
			var otherRuns, runs atomic.Int32
			if err := g.StartAndWait(ctx, Component{Name: "other", Run: func(ctx context.Context, ready func()) error {
				otherRuns.Add(1)
				ready()
				<-ctx.Done()
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
			if err := g.StartAndWait(ctx, Component{Name: "dying", Run: func(ctx context.Context, ready func()) error {
				if runs.Add(1) == 1 {
					return tc.die()
				}
				ready()
				<-ctx.Done()
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
			st := g.States()[1]
			if st.Restarts != 1 || !st.Ready ||
				st.LastError != errText(tc.want) && !errorsContain(st.LastError, tc.want) {
				t.Errorf("state after restart = %+v, want one restart because of %v", st, tc.want)
			}
			if err := g.Stop(); err != nil {
				t.Error(err)
			}
			if otherRuns.Load() != 1 {
				t.Errorf("the other component ran %d times, want 1", otherRuns.Load())
			}
		})
	}
}

func errText(err error) string { return err.Error() }

func errorsContain(text string, err error) bool {
	return len(text) > len(err.Error()) && text[:len(err.Error())] == err.Error()
}

func TestCriticalExitFailsTheGroup(t *testing.T) {
	ctx := testContext(t)
	g := NewGroup(quiet())
	boom := errors.New("boom")
	g.Start(ctx, Component{Name: "waits", Run: func(ctx context.Context, _ func()) error { <-ctx.Done(); return nil }})
	g.Start(ctx, Component{Name: "datastore", Critical: true,
		Run: func(context.Context, func()) error { return boom }})
	if err := g.Wait(ctx, "waits"); !errors.Is(err, boom) {
		t.Errorf("Wait on another component = %v, want the critical failure", err)
	}
	select {
	case err := <-g.Failed():
		if !errors.Is(err, boom) {
			t.Errorf("Failed = %v, want %v", err, boom)
		}
	case <-ctx.Done():
		t.Error("the critical failure is gone after Wait has seen it")
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
}

func TestStopEndsInReverseOrder(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	g := NewGroup(quiet())
	var order []string // written by one component at a time: Stop is sequential
	for _, name := range []string{"first", "second", "third"} {
		if err := g.StartAndWait(ctx, Component{Name: name, Run: func(ctx context.Context, ready func()) error {
			ready()
			<-ctx.Done()
			order = append(order, name)
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
	}
	cancel() // the process was asked to end; the order is still Stop's
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if len(order) != 3 || order[0] != "third" || order[2] != "first" {
		t.Errorf("stop order = %v, want third, second, first", order)
	}
}

func TestStopNamesWhatDoesNotEnd(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	g := NewGroup(quiet())
	if err := g.StartAndWait(testContext(t),
		Component{Name: "stuck", StopTimeout: time.Millisecond, Run: func(_ context.Context, ready func()) error {
			ready()
			<-release
			return nil
		}}); err != nil {
		t.Fatal(err)
	}
	if err := g.Stop(); err == nil {
		t.Error("Stop = nil although a component does not end")
	}
}

// Whatever hangs, a group ends by its deadline, and each component is told to end.
func TestStopByADeadline(t *testing.T) { synctest.Test(t, testStopByADeadline) }

func testStopByADeadline(t *testing.T) {
	group := NewGroup(quiet())
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	told := make(chan string, 3)
	for _, name := range []string{"below", "hangs", "above"} {
		group.Start(t.Context(), Component{Name: name, Run: func(ctx context.Context, _ func()) error {
			<-ctx.Done()
			told <- name
			if name == "hangs" {
				<-release
			}
			return nil
		}})
	}
	const limit = 400 * time.Millisecond
	began := time.Now()
	err := group.StopBy(began.Add(limit))
	if took := time.Since(began); took > limit {
		t.Errorf("it took %s", took)
	}
	if err == nil || !strings.Contains(err.Error(), "component hangs did not stop") ||
		strings.Contains(err.Error(), "below") {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{"above", "hangs", "below"} {
		if got := <-told; got != want {
			t.Errorf("%s was told to end, want %s", got, want)
		}
	}
}

func TestAFinalErrorEndsTheGroup(t *testing.T) {
	group := NewGroup(logrus.NewEntry(logrus.StandardLogger()))
	reason := errors.New("no grace period")
	runs := 0
	group.Start(t.Context(), Component{Name: "once", Run: func(context.Context, func()) error {
		runs++
		return Final(Contain("once", func() error { return reason }))
	}})
	if err := <-group.Failed(); !errors.Is(err, reason) || err.Error() != "once: no grace period" {
		t.Errorf("the group ends with %v", err)
	}
	if err := group.Stop(); err != nil || runs != 1 {
		t.Errorf("%d runs, %v", runs, err)
	}
	if Final(nil) != nil {
		t.Error("no error is one")
	}
}
