package child

import (
	"bytes"
	"strings"
	"sync"
)

// tailLines is how many lines a tail keeps, tailLine how much of each.
const (
	tailLines = 3
	tailLine  = 1000
)

// tail keeps the last lines written to it.
type tail struct {
	mu      sync.Mutex
	lines   []string
	partial []byte
}

// Write implements io.Writer and never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := p
	for {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		t.partial = append(t.partial, line[:min(len(line), max(0, tailLine-len(t.partial)))]...)
		if !found {
			return len(p), nil
		}
		t.lines = append(t.lines, string(t.partial))
		if len(t.lines) > tailLines {
			t.lines = t.lines[1:]
		}
		t.partial = t.partial[:0]
		rest = after
	}
}

// String returns the lines, the unfinished one included.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	if len(t.partial) > 0 {
		lines = append(lines[:len(lines):len(lines)], string(t.partial))
	}
	return strings.Join(lines, "\n")
}
