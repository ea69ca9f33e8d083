package child

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
)

// shell is a child that runs a script.
func shell(t *testing.T, script string) Process {
	return Process{
		Name: "the child", Path: "/bin/sh", Args: []string{"sh", "-c", script},
		LogFile:   filepath.Join(t.TempDir(), "log"),
		StopGrace: 200 * time.Millisecond, Serving: func(context.Context) error { return nil },
		Log: logrus.NewEntry(logrus.New()),
	}
}

func TestAnEndByItselfIsAnErrorWithTheLastWords(t *testing.T) {
	err := shell(t, "echo said this; echo and that >&2").Run(t.Context(), func() {})
	if !errors.Is(err, component.ErrExited) || !strings.HasSuffix(err.Error(), "said this\nand that") {
		t.Errorf("error %v, want ErrExited with the last lines", err)
	}
}

func TestTheContextEndsTheChild(t *testing.T) {
	for name, script := range map[string]string{
		"on request": "sleep 1000",
		"by force":   "trap '' TERM; while :; do sleep 0.1; done",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			if err := shell(t, script).Run(ctx, cancel); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAChildThatCannotBeNotedEnds(t *testing.T) {
	refused := errors.New("refused")
	p := shell(t, "sleep 1000")
	p.Started = func(int) error { return refused }
	if err := p.Run(t.Context(), func() { t.Error("it is ready") }); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
}

func TestEnv(t *testing.T) {
	got := Env([]string{"PATH=/bin", "A4S_TOKEN=secret", "NOTIFY_SOCKET=/run/x", "WATCHDOG_USEC=1",
		"LISTEN_FDS=1", "HOME=/root"})
	if want := []string{"PATH=/bin", "HOME=/root"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTail(t *testing.T) {
	var last tail
	for _, chunk := range []string{"1\n2\n3", "3\n4\n5\n6\n", "unfinished", strings.Repeat("x", 5000)} {
		if n, err := last.Write([]byte(chunk)); n != len(chunk) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	want := "4\n5\n6\nunfinished" + strings.Repeat("x", tailLine-len("unfinished"))
	if got := last.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
