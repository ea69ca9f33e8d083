package nodechild

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// errorPrefix is how the command line begins what ended it.
const errorPrefix = "a4s: "

// maxLine bounds a line that has no end yet.
const maxLine = 64 << 10

// words passes the log of the node on, a line at a time so that it does not mix
// with the server's, and keeps what it says about its end.
type words struct {
	out io.Writer

	mu      sync.Mutex
	partial []byte
	end     string
	own     bool
}

// Write implements io.Writer. What cannot be written is lost, as it is for the
// server's own log.
func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.partial = append(w.partial, p...)
	for {
		i := bytes.IndexByte(w.partial, '\n')
		if i < 0 && len(w.partial) > maxLine {
			i = maxLine
		}
		if i < 0 {
			return len(p), nil
		}
		w.line(w.partial[:i+1])
		w.partial = w.partial[i+1:]
	}
}

func (w *words) line(line []byte) {
	text := strings.TrimSpace(string(line))
	switch {
	case strings.HasPrefix(text, errorPrefix):
		// The server says it.
		w.end, w.own = strings.TrimPrefix(text, errorPrefix), true
		return
	case strings.HasPrefix(text, "panic: "), strings.HasPrefix(text, "fatal error: "), strings.HasPrefix(text, "SIG"):
		if w.end == "" {
			w.end = text
		}
	}
	_, _ = w.out.Write(line) // see Write
}

// last is what the node said about its end, "" if it said nothing.
func (w *words) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.end
}

// byItself reports whether the node gave up, and not a part of it.
func (w *words) byItself() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.own
}
