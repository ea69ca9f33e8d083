package vm

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/agent/vm/crilog"
	"github.com/a4s-io/a4s/agent/vm/guest"
)

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestOutputGoesToLogAndWhoIsAttached(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.log")
	log, err := crilog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var o output
	o.open(log)
	say := func(stream int, text string) {
		t.Helper()
		if err := o.keep(guest.Output{Stream: stream, Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	attach := func(out, errs *bytes.Buffer, also bool) chan struct{} {
		done := make(chan struct{})
		before := func() int { o.mu.Lock(); defer o.mu.Unlock(); return len(o.attached) }
		n := before()
		go func() {
			defer close(done)
			if also {
				o.attach(t.Context(), broken{}, nil)
			} else {
				o.attach(t.Context(), out, errs)
			}
		}()
		for before() == n {
			select {
			case <-done:
				t.Error("attaching ended at once")
				return done
			default:
			}
		}
		return done
	}
	say(fdStdout, "before\n")
	var stdout, stderr bytes.Buffer
	first := attach(&stdout, &stderr, false)
	leaves := attach(nil, nil, true)
	say(fdStdout, "one\n")
	<-leaves // its client is gone; that bothers nobody else
	say(fdStderr, "two\n")
	say(fdStdout, "unfinished")
	if err := o.close(); err != nil {
		t.Fatal(err)
	}
	<-first
	say(fdStdout, "late\n")
	if err := o.close(); err != nil {
		t.Fatal(err)
	}
	if stdout.String() != "one\nunfinished" || stderr.String() != "two\n" {
		t.Errorf("attached: %q, %q", stdout.String(), stderr.String())
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Count(string(data), "\n") != 4 ||
		!strings.HasSuffix(string(data), " stdout F unfinished\n") {
		t.Errorf("log, %v:\n%s", err, data)
	}
}

// stuck is a client that does not read.
type stuck struct{ writing, until chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	close(s.writing)
	<-s.until
	return 0, errors.New("gone")
}

func TestAttachedThatDoesNotReadDelaysNoEnd(t *testing.T) {
	var o output
	o.open(crilog.Discard())
	s := stuck{make(chan struct{}), make(chan struct{})}
	left := make(chan struct{})
	go func() {
		defer close(left)
		o.attach(t.Context(), s, nil)
	}()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		for there := false; !there; {
			if err := o.keep(guest.Output{Stream: fdStdout, Data: []byte("x")}); err != nil {
				t.Error(err)
			}
			select {
			case <-s.writing:
				there = true
			default:
			}
		}
	}()
	<-s.writing
	if err := o.close(); err != nil {
		t.Error(err)
	}
	<-left // its connection is closed then, which ends the write
	close(s.until)
	<-kept
}
