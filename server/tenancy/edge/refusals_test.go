package edge

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// Who is refused over and over is told so later and later, and keeps nobody else waiting.
func TestRefusalsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(fairqueue.New(fairqueue.ForProcessors(2)))
		refuse := func(ctx context.Context, from string, bytes int) time.Duration {
			req := httptest.NewRequestWithContext(ctx, http.MethodGet,
				"/api/v1/pods?labelSelector="+strings.Repeat("a", bytes), nil)
			req.RemoteAddr = from + ":1000"
			before := time.Now()
			q.refuse(req, nil, "")
			return time.Since(before)
		}
		if took := refuse(t.Context(), "192.0.2.7", 500_000); took != 0 {
			t.Errorf("the first waits for %s", took)
		}
		// Each has cost 2.2 ms: 45 are a tenth of a second, and so are those of the next second.
		before := time.Now()
		for range 45 * 3 {
			refuse(t.Context(), "192.0.2.7", 500_000)
		}
		if took := time.Since(before); took < 1900*time.Millisecond || took > 2100*time.Millisecond {
			t.Errorf("135 of them took %s, want two seconds", took)
		}
		if took := refuse(t.Context(), "192.0.2.8", 500_000); took != 0 {
			t.Errorf("another client waits for %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if took := refuse(ctx, "192.0.2.7", 500_000); took != time.Millisecond {
			t.Errorf("who has left after a millisecond is waited for %s", took)
		}
	})
}

// What waits is bounded, of each flow and of all, in number and in bytes: the others are answered
// at once.
func TestRefusalsThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusals()
		check := func(held, bytes int) {
			t.Helper()
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.held != held || r.bytes != bytes {
				t.Errorf("%d of %d bytes wait, want %d of %d", r.held, r.bytes, held, bytes)
			}
		}
		refuse := func(from string, many, bytes int) {
			for range many {
				go r.hold(t.Context(), from, bytes)
			}
		}
		refuse("tenant:a", 2*heldOfFlow, 1)
		check(heldOfFlow, heldOfFlow)
		for i := range 100 {
			refuse(fmt.Sprint("address:", i), 1000, 1)
		}
		check(heldAtAll, heldAtAll)
		time.Sleep(2 * longestWait)
		check(0, 0)
		refuse("tenant:b", heldOfFlow, heldBytes/10)
		check(10, heldBytes/10*10)
		time.Sleep(2 * longestWait)
		check(0, 0)
	})
}

// Nobody waits for longer than for a seat.
func TestRefusalsWaitNoLongerThanSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusals()
		for range 10_000 {
			go r.hold(t.Context(), "tenant:acme", 0)
		}
		synctest.Wait()
		time.Sleep(2 * time.Second) // those that wait least have been answered, and leave room for others
		before := time.Now()
		r.hold(t.Context(), "tenant:acme", 500_000)
		if took := time.Since(before); took < longestWait-3*time.Second || took > longestWait {
			t.Errorf("%s, want about %s", took, longestWait)
		}
		r.hold(t.Context(), "", 500_000) // the system's
		time.Sleep(2 * longestWait)
		before = time.Now()
		r.hold(t.Context(), "tenant:acme", 500_000)
		if took := time.Since(before); took > 0 {
			t.Errorf("%s after all were answered and as long again, want no wait", took)
		}
	})
}
