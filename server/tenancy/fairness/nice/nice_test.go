package nice

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
)

// threads are those of a process that may lower their priority.
func threads(t *testing.T) (these *Threads, base int) {
	t.Helper()
	base, err := priority()
	if err != nil {
		t.Fatal(err)
	}
	these, err = New()
	if err != nil {
		t.Skipf("needs the right to raise priorities: %v", err)
	}
	return these, base
}

// now is the priority that the caller runs at.
func now(t *testing.T) int {
	t.Helper()
	n, err := priority()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLowerAndRestore(t *testing.T) {
	these, base := threads(t)
	ctx := these.Context(t.Context())
	restore := Lower(ctx)
	if n := now(t); n != base+by {
		t.Errorf("lowered to %d from %d", n, base)
	}
	runtime.Gosched() // it keeps its thread
	again := Lower(ctx)
	again()
	if n := now(t); n != base+by {
		t.Errorf("within: %d", n)
	}
	other := make(chan int)
	go func() {
		n, _ := priority()
		other <- n
	}()
	if n := <-other; n != base {
		t.Errorf("another goroutine has %d", n)
	}
	restore()
	if n := now(t); n != base {
		t.Errorf("afterwards %d", n)
	}
	if n := these.lowered.Load(); n != 0 {
		t.Errorf("%d are counted as lowered", n)
	}
}

func TestUnmarkedWorkIsNotLowered(t *testing.T) {
	_, base := threads(t)
	for name, ctx := range map[string]context.Context{
		"not marked":              t.Context(),
		"by a process that can't": (*Threads)(nil).Context(t.Context()),
	} {
		restore := Lower(ctx)
		if n := now(t); n != base {
			t.Errorf("%s: %d", name, n)
		}
		restore()
	}
}

// What it takes is bounded: a goroutine with a thread of its own keeps it while it
// waits for a slow client.
func TestLoweredThreadsAreBounded(t *testing.T) {
	these, base := threads(t)
	ctx := these.Context(t.Context())
	var restores []func()
	for range most {
		restores = append(restores, Lower(ctx))
	}
	lowered := make(chan int)
	go func() {
		defer Lower(ctx)()
		n, _ := priority()
		lowered <- n
	}()
	if n := <-lowered; n != base {
		t.Errorf("one too many has %d", n)
	}
	for _, restore := range slices.Backward(restores) {
		restore()
	}
	if n := now(t); n != base {
		t.Errorf("afterwards %d", n)
	}
	go func() {
		defer Lower(ctx)()
		n, _ := priority()
		lowered <- n
	}()
	if n := <-lowered; n != base+by {
		t.Errorf("when there is room again: %d", n)
	}
}

func TestHandlerRestoresAfterAPanic(t *testing.T) {
	these, base := threads(t)
	inside := -1
	h := Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		inside, _ = priority()
		panic(http.ErrAbortHandler)
	}))
	req := httptest.NewRequestWithContext(these.Context(t.Context()), http.MethodGet, "/", nil)
	func() {
		defer func() { _ = recover() }()
		h.ServeHTTP(httptest.NewRecorder(), req)
	}()
	if n := now(t); inside != base+by || n != base || these.lowered.Load() != 0 {
		t.Errorf("%d inside, %d afterwards, %d counted", inside, n, these.lowered.Load())
	}
}

// Who could not raise a priority again lowers none.
func TestWithoutTheRight(t *testing.T) {
	const marker = "A4S_NICE_TEST"
	if os.Getenv(marker) != "" {
		these, err := New()
		if these != nil || err == nil {
			t.Errorf("%v, %v", these, err)
		}
		if n := now(t); n != 0 {
			t.Errorf("and left it at %d", n)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestWithoutTheRight$")
	cmd.Env = append(os.Environ(), marker+"=1")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
