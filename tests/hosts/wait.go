package hosts

import (
	"context"
	"testing"
	"time"
)

// pollInterval is short, because a condition is cheap to ask for.
const pollInterval = 200 * time.Millisecond

// Until calls condition until it returns nil, and fails the test when it still
// returns an error after timeout. what completes "waiting until".
func Until(t testing.TB, timeout time.Duration, what string, condition func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	started := time.Now()
	last := condition(ctx)
	for last != nil {
		select {
		case <-ctx.Done():
			t.Fatalf("waiting until %s: not within %s: %v", what, time.Since(started).Round(time.Second), last)
		case <-time.After(pollInterval):
		}
		if err := condition(ctx); ctx.Err() == nil || last == nil {
			last = err
		}
	}
	if took := time.Since(started); took > time.Second {
		t.Logf("%s: after %s", what, took.Round(100*time.Millisecond))
	}
}
