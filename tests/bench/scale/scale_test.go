package main

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

	"github.com/a4s-io/a4s/tests/bench/sides"
)

func TestSmallRunsKeepWhatIsSaid(t *testing.T) {
	s, err := parse([]string{"--smoke", "--nodes", "7", "--sides", "tenants,raised"})
	if err != nil {
		t.Fatal(err)
	}
	if s.nodes != 7 || s.spaces != 5 || s.rounds != 1 || s.idle != time.Second {
		t.Errorf("settings are %+v", s)
	}
	if len(s.sides) != 2 || s.sides[0].short != "tenants" || s.sides[1].short != "raised" {
		t.Errorf("sides are %+v", s.sides)
	}
	for _, args := range [][]string{{"--sides", "nobody"}, {"--nodes", "0"}, {"more"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q are taken", args)
		}
	}
}

func TestGrowthMeasuresOneSideAtSeveralSizes(t *testing.T) {
	s, err := parse([]string{"--sides", "tenants", "--growth", "1, 4", "--nodes", "10", "--deployments", "5"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range s.runs() {
		names = append(names, r.name)
	}
	if want := []string{"10 nodes, 50 pods", "40 nodes, 200 pods"}; !slices.Equal(names, want) {
		t.Errorf("a round measures %q, want %q", names, want)
	}
	for _, args := range [][]string{{"--growth", "1,2"}, {"--sides", "tenants", "--growth", "0"},
		{"--sides", "tenants", "--growth", "x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q are taken", args)
		}
	}
}

func TestPaceIsLearntOnce(t *testing.T) {
	s := &settings{}
	s.learn(100)
	s.learn(200)
	if s.pace != 60 {
		t.Errorf("the pace is %v", s.pace)
	}
}

func TestRoundsBeginWithAnotherSide(t *testing.T) {
	all := (&settings{sides: allContestants()}).runs()
	var first []string
	for round := range len(all) + 1 {
		turn := sides.InTurn(round, all)
		if len(turn) != len(all) {
			t.Fatalf("round %d has %d sides", round, len(turn))
		}
		first = append(first, turn[0].short)
	}
	if want := append(sideNames(), all[0].short); !slices.Equal(first, want) {
		t.Errorf("rounds begin with %q, want %q", first, want)
	}
}

func TestPodsCountForTheirPhase(t *testing.T) {
	w := &podWatch{pods: map[types.UID]*seenPod{}, phases: map[string]*podCounts{"": {}}}
	start := time.Now()
	after := func(d time.Duration) time.Time { return start.Add(d) }
	pod := func(uid types.UID, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Status: corev1.PodStatus{Phase: phase}}
	}
	w.enter("one")
	w.update(pod("a", corev1.PodPending), after(0))
	w.update(pod("b", corev1.PodPending), after(time.Second))
	w.update(pod("a", corev1.PodRunning), after(3*time.Second))
	w.enter("two")
	w.update(pod("b", corev1.PodRunning), after(2*time.Second)) // of the phase in which it came
	w.update(pod("c", corev1.PodPending), after(4*time.Second))
	w.update(pod("c", corev1.PodRunning), after(5*time.Second))
	w.update(pod("c", corev1.PodRunning), after(6*time.Second)) // once is enough
	w.remove(pod("a", corev1.PodRunning))

	one, two := w.of("one"), w.of("two")
	if one.seen != 2 || !slices.Equal(one.waits, []time.Duration{time.Second, 3 * time.Second}) {
		t.Errorf("the first phase has %+v", one)
	}
	if two.seen != 1 || !slices.Equal(two.waits, []time.Duration{time.Second}) {
		t.Errorf("the second phase has %+v", two)
	}
	if !two.last.Equal(after(5 * time.Second)) {
		t.Errorf("the last pod ran %v after the start", two.last.Sub(start))
	}
	if n := w.present(); n != 2 {
		t.Errorf("%d pods are there, want 2", n)
	}
}

func TestLoadMayNotComeToAStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		// It takes long, but goes on.
		slow := func() int { return int(time.Since(start) / (patience / 2)) }
		if err := awaitCount(t.Context(), "pods", 5, slow); err != nil {
			t.Error(err)
		}
		if err := awaitCount(t.Context(), "pods", 5, func() int { return 4 }); err == nil {
			t.Error("a load that stands still is waited for")
		}
	})
}

func TestParallelWorkEndsWithTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	err := inParallel(t.Context(), 3, 1000, func(ctx context.Context, i int) error {
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
	if err := inParallel(t.Context(), 3, 10, func(context.Context, int) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestArrivalsAreKept(t *testing.T) {
	a := newArrivals()
	a.add("early")
	a.add("early")
	if err := a.await(t.Context(), "early"); err != nil {
		t.Error(err)
	}
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.await(ctx, "never"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("what never comes: %v", err)
		}
	})
}
