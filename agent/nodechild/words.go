package nodechild

import (
	"bytes"
	"cmp"
	"io"
	"strconv"
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
	failure string // the last error in the log
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
	case strings.Contains(text, " level=error ") || strings.Contains(text, " level=fatal "):
		w.failure = plain(text)
	}
	_, _ = w.out.Write(line) // see Write
}

// last is what the node said about its end, else the last error in its log: parts
// of upstream write one and end the process. It is "" if there was none.
func (w *words) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return cmp.Or(w.end, w.failure)
}

// plain is the message and the error of a line of the log.
func plain(line string) string {
	var parts []string
	for _, key := range []string{" msg=", " error="} {
		_, rest, found := strings.Cut(line, key)
		if !found {
			continue
		}
		value, _, _ := strings.Cut(rest, " ")
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			if text, err := strconv.Unquote(quoted); err == nil {
				value = text
			}
		}
		parts = append(parts, value)
	}
	return strings.Join(parts, ": ")
}

// byItself reports whether the node gave up, and not a part of it.
func (w *words) byItself() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.own
}
