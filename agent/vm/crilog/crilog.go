package crilog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Streams of a container.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// maxLine is the longest piece of a line in one entry, as containerd has it.
const maxLine = 16 << 10

// Log is the log file of one container.
type Log struct {
	path string
	now  func() time.Time

	mu     sync.Mutex
	file   *os.File // nil after Close
	buffer bytes.Buffer
}

// Open opens the log at path to append to it. With an empty path everything
// written is dropped, as the CRI wants it.
func Open(path string) (*Log, error) {
	l := &Log{path: path, now: time.Now}
	return l, l.Reopen()
}

// Discard returns a log that drops everything.
func Discard() *Log { return &Log{now: time.Now} }

// Reopen continues in a new file at the same path, which someone has renamed.
func (l *Log) Reopen() error {
	if l.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return fmt.Errorf("directory of the log: %w", err)
	}
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	l.mu.Lock()
	old := l.file
	l.file = file
	l.mu.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// Close closes the file; what is written later is dropped.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// Stream returns a writer of one stream. Close writes its unfinished line; the
// log stays open.
func (l *Log) Stream(name string) *Stream { return &Stream{log: l, name: name} }

// Stream is one stream of a container.
type Stream struct {
	log  *Log
	name string

	mu      sync.Mutex
	partial []byte
}

// Write implements io.Writer.
func (s *Stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for rest := p; len(rest) > 0; {
		line, after, full := bytes.Cut(rest, []byte("\n"))
		room := maxLine - len(s.partial)
		if len(line) > room {
			s.partial = append(s.partial, line[:room]...)
			rest = rest[room:]
			err = errors.Join(err, s.flush('P'))
			continue
		}
		s.partial = append(s.partial, line...)
		rest = after
		if full {
			err = errors.Join(err, s.flush('F'))
		}
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close implements io.Closer.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.partial) == 0 {
		return nil
	}
	return s.flush('F')
}

func (s *Stream) flush(tag byte) error {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		s.partial = s.partial[:0]
		return nil
	}
	// In one write, so that a reader never sees half an entry.
	l.buffer.Reset()
	l.buffer.WriteString(l.now().Format(time.RFC3339Nano))
	l.buffer.WriteByte(' ')
	l.buffer.WriteString(s.name)
	l.buffer.Write([]byte{' ', tag, ' '})
	l.buffer.Write(s.partial)
	l.buffer.WriteByte('\n')
	s.partial = s.partial[:0]
	if _, err := l.file.Write(l.buffer.Bytes()); err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}
