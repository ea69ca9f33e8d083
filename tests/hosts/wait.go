package hosts

import (
	"context"
	"fmt"
	"strings"
	"sync"
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
	last, cut := condition(ctx), ""
	for last != nil {
		select {
		case <-ctx.Done():
			reason := fmt.Sprintf("waiting until %s: not within %s: %v%s", what,
				time.Since(started).Round(time.Second), last, cut)
			vain.Store(whole(t), reason)
			t.Fatal(reason)
		case <-time.After(pollInterval):
		}
		tried := time.Now()
		if err := condition(ctx); ctx.Err() == nil {
			last = err
		} else if err != nil { // it says less than the one before
			cut = fmt.Sprintf(" (a try of %s after that: %v)", time.Since(tried).Round(time.Second), err)
		} else {
			last = nil
		}
	}
	if took := time.Since(started); took > time.Second {
		t.Logf("%s: after %s", what, took.Round(100*time.Millisecond))
	}
}

// vain has for each test what it waited for in vain.
var vain sync.Map

// WaitedInVain is what the test, or a part of it, waited for in vain, "" if it
// did not. Who sees only the end of a report can be told so.
func WaitedInVain(t testing.TB) string {
	reason, _ := vain.Load(whole(t))
	text, _ := reason.(string)
	return text
}

func whole(t testing.TB) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return name
}
