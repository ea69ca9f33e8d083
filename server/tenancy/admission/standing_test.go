package admission

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestBreaker: after failures in a row nobody asks, until one question is tried
// and answered.
func TestBreaker(t *testing.T) {
	var changes []bool
	s := &standing{changed: func(open bool) { changes = append(changes, open) }}
	now := time.Now()
	s.failed(now)
	s.failed(now)
	s.answered()
	for range failuresToOpen {
		if err := s.mayAsk(now); err != nil {
			t.Fatalf("not open yet: %v", err)
		}
		s.failed(now)
	}
	if err := s.mayAsk(now); !errors.Is(err, errOpen) {
		t.Errorf("after %d failures: %v", failuresToOpen, err)
	}
	now = now.Add(openFor)
	if err := s.mayAsk(now); err != nil {
		t.Errorf("the first question after a while: %v", err)
	}
	if err := s.mayAsk(now); !errors.Is(err, errOpen) {
		t.Errorf("a second one beside it: %v", err)
	}
	s.failed(now)
	if err := s.mayAsk(now.Add(openFor)); !errors.Is(err, errOpen) {
		t.Errorf("it failed again, so it should take longer: %v", err)
	}
	now = now.Add(2 * openFor)
	if err := s.mayAsk(now); err != nil {
		t.Errorf("another try: %v", err)
	}
	s.answered()
	if err := s.mayAsk(now); err != nil {
		t.Errorf("after an answer: %v", err)
	}
	if len(changes) != 2 || !changes[0] || changes[1] {
		t.Errorf("changes that were told: %v", changes)
	}
}

// TestSlowHooksHoldOneWorker: those of which nothing is known count as slow.
func TestSlowHooksHoldOneWorker(t *testing.T) {
	s := &standing{changed: func(bool) {}}
	now := time.Now()
	both := func(name string, want error) {
		t.Helper()
		if err := s.enter(now); err != nil {
			t.Fatalf("%s: the first: %v", name, err)
		}
		err := s.enter(now)
		if !errors.Is(err, want) {
			t.Errorf("%s: the second: %v, want %v", name, err, want)
		}
		if err == nil {
			s.leave(now, now)
		}
	}
	both("unknown", errBusy)
	s.answered()
	s.leave(now, now)
	both("fast", nil)
	s.leave(now, now.Add(2*slowAnswer))
	now = now.Add(2 * slowAnswer)
	both("slow", errBusy)
	s.leave(now, now)
	both("one fast answer after a slow one", errBusy)
	s.leave(now, now)
	now = now.Add(slowFor)
	both("fast for a while", nil)
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestWallV8AllowanceOfARequest: a hook that never answers, one that asks to be
// called later and one whose answer has no end all fail as calls, within the time
// that the request has.
func TestWallV8AllowanceOfARequest(t *testing.T) {
	s := &standing{changed: func(bool) {}}
	ctx, a := allowanceOf(t.Context())
	a.begin(s)
	a.end = time.Now().Add(50 * time.Millisecond)
	call := func(ctx context.Context, f roundTrip) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://hook.example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		return trip{f}.RoundTrip(req)
	}
	silent := roundTrip(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	})
	if _, err := call(ctx, silent); !errors.Is(err, errBudget) { //nolint:bodyclose // there is none
		t.Errorf("a hook that never answers: %v", err)
	}
	if ctx.Err() != nil {
		t.Error("the request has ended with the call, so failurePolicy cannot apply")
	}
	if _, err := call(ctx, func(*http.Request) (*http.Response, error) { //nolint:bodyclose // there is none
		t.Error("a hook is called though the time is over")
		return nil, io.EOF
	}); !errors.Is(err, errBudget) {
		t.Errorf("the next hook of the request: %v", err)
	}
	if s.failures != 2 {
		t.Errorf("%d failures were noted", s.failures)
	}
	answers := func(code int, body io.Reader) roundTrip {
		return func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: code, Header: http.Header{"Retry-After": {"30"}},
				Body: io.NopCloser(body)}, nil
		}
	}
	resp, err := call(t.Context(), answers(http.StatusTooManyRequests, strings.NewReader("")))
	if err != nil || resp.Header.Get("Retry-After") != "" {
		t.Errorf("a hook says when to call it again: %v, %v", resp.Header, err)
	}
	resp.Body.Close() //nolint:errcheck // nothing was sent
	resp, err = call(t.Context(), answers(http.StatusOK, endless{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, errLong) {
		t.Errorf("an endless answer: %v", err)
	}
	resp.Body.Close() //nolint:errcheck // it has no end
	ctx, a = allowanceOf(t.Context())
	a.begin(s)
	resp, err = call(ctx, answers(http.StatusOK, strings.NewReader("{}")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || s.failures != 0 {
		t.Errorf("an answer: %v, %d failures in a row", err, s.failures)
	}
	resp.Body.Close() //nolint:errcheck // it was read
}

// TestWallV8ConversionsOfASilentHook: whoever empties a namespace does not wait for
// a conversion webhook again and again.
func TestWallV8ConversionsOfASilentHook(t *testing.T) {
	var changes []bool
	calls := 0
	broken := conversion{roundTrip(func(*http.Request) (*http.Response, error) {
		calls++
		return nil, io.ErrUnexpectedEOF
	}), &standing{changed: func(open bool) { changes = append(changes, open) }}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://hook.example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range failuresToOpen {
		if _, err := broken.RoundTrip(req); !errors.Is(err, io.ErrUnexpectedEOF) { //nolint:bodyclose // there is none
			t.Fatal(err)
		}
	}
	// there is none
	if _, err := broken.RoundTrip(req); !errors.Is(err, errOpen) || //nolint:bodyclose
		calls != failuresToOpen || len(changes) != 1 {
		t.Errorf("after %d failures: %v, %d calls, changes %v", failuresToOpen, err, calls, changes)
	}
}

type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return len(p), nil }
