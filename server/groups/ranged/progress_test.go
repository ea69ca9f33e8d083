package ranged

import (
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/ownership"
)

// TestProgress: a change counts once the watches of all resources have met it.
func TestProgress(t *testing.T) {
	s := NewSource(Options{})
	p, pods, secrets := &s.progress, &merge{}, &merge{}
	at := func(newest int64) *view { return &view{newest: newest, table: ownership.NewTable(nil)} }
	expect := func(what string, revision int64, moves int) {
		t.Helper()
		if got := s.Progress(); got.Revision != revision || got.Moves != moves || got.Table == nil {
			t.Errorf("%s: %+v, want revision %d, %d moves", what, got, revision, moves)
		}
	}
	expect("at first", 0, 0)
	p.begin(pods, at(10), 15)
	p.begin(secrets, at(10), 17)
	expect("both have begun", 10, 0)
	p.met(pods, at(20), 20, true)
	expect("one has met a move", 10, 0)
	p.met(secrets, at(20), 20, true)
	expect("both have", 20, 1)
	p.met(pods, at(30), 30, false)
	p.met(secrets, at(30), 30, false)
	expect("a change that moves nobody", 30, 1)
	p.met(pods, at(40), 40, true)
	p.met(pods, at(50), 50, true)
	p.met(secrets, at(40), 40, true)
	expect("one is a move behind", 40, 2)
	p.end(secrets)
	expect("the other watch has ended", 50, 3)
	// The change at 50 was a deletion, so the newest configuration is older.
	p.begin(secrets, at(40), 60)
	expect("it begins again", 50, 3)
	p.end(secrets)
	p.begin(secrets, at(40), 45)
	expect("it begins before a change", 40, 3)
	p.met(secrets, at(50), 50, true)
	expect("it has caught up", 50, 3)
	p.end(secrets)
	p.end(pods)
	expect("no watch is open", 50, 3)
}

// TestAsking: while nothing goes on, etcd is asked less and less often.
func TestAsking(t *testing.T) {
	var a asking
	for i, c := range []struct {
		waits int64
		want  time.Duration
	}{{5, askAgain}, {5, 2 * askAgain}, {5, 4 * askAgain}, {5, 8 * askAgain},
		{5, askLast}, {5, askLast}, {6, askAgain}} {
		if got := a.next(c.waits); got != c.want {
			t.Errorf("question %d is followed by one in %s, want %s", i, got, c.want)
		}
	}
}
