package hosts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// failing is a test whose failure fails nothing else.
type failing struct {
	testing.TB
	reason string
}

func (f *failing) Helper() {}

func (f *failing) Fatal(args ...any) {
	f.reason, _ = args[0].(string)
	runtime.Goexit()
}

func TestWaitedInVain(t *testing.T) {
	f := &failing{TB: t}
	if got := WaitedInVain(f); got != "" {
		t.Errorf("before: %q", got)
	}
	ended := make(chan struct{})
	t.Run("part", func(t *testing.T) {
		f.TB = t
		go func() {
			defer close(ended)
			Until(f, time.Millisecond, "it works", func(context.Context) error { return errors.New("it does not") })
		}()
		<-ended
	})
	if got := WaitedInVain(t); got != f.reason || !strings.Contains(got, "until it works") ||
		!strings.Contains(got, "it does not") {
		t.Errorf("got %q, the test says %q", got, f.reason)
	}
	t.Cleanup(func() { vain.Delete(t.Name()) })
}

func TestLastLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("time=1 a\ntime=2 b\ntime=3 b\ntime=4 b\nplain\nplain\ntime=5 c\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := LastLines(path, 4), "time=2 b\nplain\nplain\ntime=5 c"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := LastLines(path, 1), "time=5 c"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
