package release

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
)

// logs brings what Helm logs into the server's log, and remembers the last error in it: that of an uninstallation
// that fails does not say why, and the log does.
type logs struct {
	to *logrus.Entry

	mu   sync.Mutex
	last string
}

// Enabled implements slog.Handler. An error is remembered whatever the level.
func (l *logs) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l *logs) Handle(_ context.Context, r slog.Record) error {
	text := &strings.Builder{}
	text.WriteString("Helm: " + r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(text, " %s=%v", a.Key, a.Value)
		if a.Key == "error" {
			l.mu.Lock()
			l.last = a.Value.String()
			l.mu.Unlock()
		}
		return true
	})
	if r.Level >= slog.LevelWarn {
		l.to.Warn(text.String())
	} else {
		l.to.Debug(text.String())
	}
	return nil
}

// WithAttrs implements slog.Handler. Each client is for one release, so there is nothing to add.
func (l *logs) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *logs) WithGroup(string) slog.Handler { return l }

// reason is the last error that was logged.
func (l *logs) reason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}
