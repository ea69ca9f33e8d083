package admission

import (
	"errors"
	"sync"
	"time"
)

// What the hooks of a tenant have to do, or not to do, for controllers to wait
// for them.
const (
	// failuresToOpen is how many calls in a row fail before hooks are not asked.
	failuresToOpen = 3
	// openFor is how long they are not asked first, and maxOpenFor at most.
	openFor    = 15 * time.Second
	maxOpenFor = 4 * time.Minute
	// slowAnswer is when answering takes too long for several controllers to
	// wait at a time, and slowFor how long this is remembered.
	slowAnswer = 100 * time.Millisecond
	slowFor    = 30 * time.Second
)

var (
	errOpen = errors.New("webhooks of the tenant failed several times, so they are not asked for a while")
	errBusy = errors.New("the admission webhooks of the tenant are slow, " +
		"so controllers ask them about one object at a time")
)

// standing is what controllers know about the hooks of one tenant: a circuit
// breaker, and whether they are slow. Controllers have few workers for all
// tenants, and whoever waits for a hook does nothing for others.
type standing struct {
	// changed learns when the breaker opens and closes. It must not wait.
	changed func(open bool)

	mu        sync.Mutex
	failures  int       // in a row
	until     time.Time // when the breaker lets one question through again; zero if it is closed
	pause     time.Duration
	probing   bool
	asking    int  // requests of controllers
	known     bool // whether a hook has answered; until then they count as slow
	slowUntil time.Time
}

// enter begins the questions about one request of a controller. It fails with
// errBusy if slow hooks are being asked about another one.
func (s *standing) enter(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking > 0 && (!s.known || now.Before(s.slowUntil)) {
		return errBusy
	}
	s.asking++
	return nil
}

// leave ends what enter began.
func (s *standing) leave(began, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking--
	if now.Sub(began) > slowAnswer {
		s.slowUntil = now.Add(slowFor)
	}
}

// mayAsk fails with errOpen where the breaker is open. When its time is over it
// lets one question through, whose answer decides.
func (s *standing) mayAsk(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.until.IsZero():
		return nil
	case now.Before(s.until) || s.probing:
		return errOpen
	}
	s.probing = true
	return nil
}

// answered notes a call that was answered, whatever the answer says.
func (s *standing) answered() {
	s.mu.Lock()
	was := !s.until.IsZero()
	s.failures, s.until, s.pause, s.probing, s.known = 0, time.Time{}, 0, false, true
	s.mu.Unlock()
	if was {
		s.changed(false)
	}
}

// failed notes a call without an answer.
func (s *standing) failed(now time.Time) {
	s.mu.Lock()
	s.failures++
	opens := s.failures == failuresToOpen && s.until.IsZero()
	if opens || s.probing {
		s.pause = min(max(openFor, 2*s.pause), maxOpenFor)
		s.until, s.probing = now.Add(s.pause), false
	}
	s.mu.Unlock()
	if opens {
		s.changed(true)
	}
}
