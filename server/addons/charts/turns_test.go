package charts

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestChartsTakeTurns: a tenant has one turn at a time, and the one that had the least lately has the next.
func TestChartsTakeTurns(t *testing.T) {
	now := time.Now()
	turns := newTurns(now)
	key := func(tenant string, n int) types.NamespacedName {
		return types.NamespacedName{Namespace: "default." + tenant, Name: fmt.Sprint(n)}
	}
	for n := range 3 {
		turns.add("greedy", key("greedy", n))
	}
	expect := func(tenant string, n int) {
		t.Helper()
		got, what, changed := turns.begin()
		if changed != nil || got != tenant || what != key(tenant, n) {
			t.Fatalf("the turn of %s with %s, want %s with %d", got, what, tenant, n)
		}
	}
	expectNone := func() {
		t.Helper()
		if got, what, changed := turns.begin(); changed == nil {
			t.Fatalf("a turn of %s with %s", got, what)
		}
	}
	expect("greedy", 0)
	expectNone()
	turns.done("greedy", 10*time.Minute, now)
	turns.add("modest", key("modest", 0))
	turns.add("modest", key("modest", 1))
	expect("modest", 0)
	expect("greedy", 1)
	expectNone()
	turns.done("modest", time.Second, now)
	expect("modest", 1)
	turns.done("greedy", time.Second, now)
	turns.done("modest", time.Second, now)
	expect("greedy", 2)
	// Who waits already waits once, and who is dropped no longer.
	for range 2 {
		turns.add("modest", key("modest", 7))
		turns.add("dropped", key("dropped", 0))
	}
	turns.drop("dropped", key("dropped", 0))
	expect("modest", 7)
	expectNone()
	turns.done("modest", time.Second, now)
	expectNone()
	// What was long ago is forgotten.
	turns.done("greedy", 0, now.Add(30*halfLife))
	if len(turns.had) > 0 || len(turns.waiting) > 0 || len(turns.busy) > 0 {
		t.Errorf("left: %v, %v, %v", turns.had, turns.waiting, turns.busy)
	}
	// Who waits has it when it comes, and an end ends the waiting.
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan string)
	go func() {
		for tenant, _, ok := turns.next(ctx); ok; tenant, _, ok = turns.next(ctx) {
			got <- tenant
		}
		close(got)
	}()
	turns.add("late", key("late", 0))
	if tenant := <-got; tenant != "late" {
		t.Errorf("the turn of %s", tenant)
	}
	cancel()
	for range got {
	}
}
