package groupwatch

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// opened begins a watch of a memory, of streams that there always were.
func opened(m *memory, name string, rev int64) (*session, error) {
	s, _, err := m.begin(name, rev, true, func(int64) ([]since, bool) { return []since{groupsAt(1, "1")}, true })
	return s, err
}

// sees lets the client of a session see events of group 1.
func (s *session) sees(revs ...int64) {
	for _, rev := range revs {
		_, _, _ = s.do(func(m *machine) ([]output, error) {
			return m.take("1", m.sources["1"].turn, modified(fmt.Sprint(rev), rev), time.Unix(1e9, 0))
		})
	}
}

// TestSessions are about a client that comes back, and others of its name.
func TestSessions(t *testing.T) {
	for name, c := range map[string]func(m *memory) error{
		"where it was": func(m *memory) error {
			s, _ := opened(m, "w", 10)
			s.sees(20, 30)
			s.close()
			again, err := opened(m, "w", 20)
			if err == nil && again.m.sources["1"].reached != 20 {
				err = fmt.Errorf("it is at %d", again.m.sources["1"].reached)
			}
			return err
		},
		"from a later list": func(m *memory) error {
			s, _ := opened(m, "w", 10)
			s.sees(20)
			s.close()
			_, err := opened(m, "w", 25)
			return err
		},
		"from a list since which it saw nothing": func(m *memory) error {
			s, _ := opened(m, "w", 10)
			s.close()
			_, err := opened(m, "w", 10)
			return err
		},
		"after a list": func(m *memory) error {
			s, _ := opened(m, "w", 10)
			s.sees(20)
			s.close()
			m.forget("w")
			_, err := opened(m, "w", 15)
			return err
		},
		"though another one of its name has listed": func(m *memory) error {
			first, _ := opened(m, "w", 10)
			first.sees(20)
			m.forget("w")
			other, err := opened(m, "w", 15)
			first.sees(30)
			first.close()
			other.close()
			again, found := opened(m, "w", 30)
			if found == nil && again.m.sources["1"].reached != 30 {
				found = fmt.Errorf("it is at %d", again.m.sources["1"].reached)
			}
			return errors.Join(err, found)
		},
		"not where nobody has been": func(m *memory) error {
			s, _ := opened(m, "w", 10)
			s.sees(20, 30)
			s.close()
			_, err := opened(m, "w", 25)
			return anew(err)
		},
		"not where it was long ago": func(m *memory) error {
			s, _ := opened(m, "w", 10)
			for rev := range int64(2 * maxShown) {
				s.sees(20 + rev)
			}
			s.close()
			_, err := opened(m, "w", 20)
			return anew(err)
		},
		"not after the end": func(m *memory) error {
			s, _ := opened(m, "w", 10)
			s.sees(20)
			s.lose()
			s.close()
			_, err := opened(m, "w", 20)
			return anew(err)
		},
		"not where two have been": func(m *memory) error {
			for range 2 {
				s, _ := opened(m, "w", 10)
				s.sees(20)
				defer s.close()
			}
			for _, s := range append([]*session{}, m.byName["w"].open...) {
				s.close()
			}
			_, err := opened(m, "w", 20)
			return anew(err)
		},
		"not where another one has been, too, that cannot go on": func(m *memory) error {
			return ofTwo(m, func(s *session) {
				s.sees(20)
				s.lose()
			})
		},
		"not where another one may have been long ago": func(m *memory) error {
			return ofTwo(m, func(s *session) {
				for rev := range int64(2 * maxShown) {
					s.sees(20 + rev)
				}
			})
		},
		"not where another one may have been that is forgotten": func(m *memory) error {
			return ofTwo(m, func(s *session) {
				s.sees(20)
				s.close()
				for range maxEnded {
					other, _ := opened(m, "w", 30)
					other.sees(40)
					defer other.close()
				}
			})
		},
		"nor does that other one where it has been since": func(m *memory) error {
			one, _ := opened(m, "w", 10)
			two, _ := opened(m, "w", 10)
			one.sees(20)
			one.close()
			two.sees(20, 30)
			two.close()
			if _, err := opened(m, "w", 20); !errors.Is(err, errAnew) {
				return fmt.Errorf("it goes on: %w", err)
			}
			_, err := opened(m, "w", 30)
			return anew(err)
		},
		"not where one may have been that was open when too many were remembered": func(m *memory) error {
			s, _ := opened(m, "w", 10)
			for i := range maxWatches {
				_, _ = opened(m, fmt.Sprint(i), 10)
			}
			s.sees(20)
			s.close()
			if _, err := opened(m, "w", 10); !errors.Is(err, errAnew) {
				return fmt.Errorf("it goes on: %w", err)
			}
			m.forget("w")
			other, err := opened(m, "w", 15)
			if err != nil {
				return err
			}
			other.sees(20)
			other.close()
			_, err = opened(m, "w", 20)
			return anew(err)
		},
		"what is on its way it has not seen": func(m *memory) error {
			s, _ := opened(m, "w", 10)
			s.sees(20)
			s.close()
			s.sees(30)
			_, err := opened(m, "w", 30)
			return err // as if from a list
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c(&memory{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// ofTwo has a client come back to where one watch was, when another one did something. Whose it is
// nobody knows.
func ofTwo(m *memory, does func(s *session)) error {
	one, _ := opened(m, "w", 10)
	two, _ := opened(m, "w", 10)
	does(one)
	one.close()
	two.sees(20)
	two.close()
	_, err := opened(m, "w", 20)
	return anew(err)
}

// anew is nil for what tells a client to begin anew.
func anew(err error) error {
	if errors.Is(err, errAnew) {
		return nil
	}
	return fmt.Errorf("it goes on: %w", err)
}

// TestManyWatches: a client that has more watches than are remembered begins anew with those that
// are not, and loses no event.
func TestManyWatches(t *testing.T) {
	var m memory
	see := func(name string, revs ...int64) {
		s, err := opened(&m, name, 10)
		if err != nil {
			t.Fatal(name, err)
		}
		s.sees(revs...)
		s.close()
	}
	running, err := opened(&m, "running", 5)
	if err != nil {
		t.Fatal(err)
	}
	see("first", 17)
	for i := range maxWatches - 2 {
		see(fmt.Sprint(i), 18)
	}
	m.add("one too many")
	if _, err := opened(&m, "first", 17); !errors.Is(err, errAnew) {
		t.Errorf("a watch that is forgotten goes on: %v", err)
	}
	if _, err := opened(&m, "first", 19); err != nil {
		t.Errorf("a watch from a later list does not: %v", err)
	}
	m.forget("second")
	if _, err := opened(&m, "second", 16); err != nil {
		t.Errorf("a watch from a list that was made since does not: %v", err)
	}
	running.sees(40)
	running.close()
	if _, err := opened(&m, "running", 40); !errors.Is(err, errAnew) {
		t.Errorf("a watch that was open then goes on as if from a list: %v", err)
	}
	if _, ok := m.byName[partitionapi.Rest]; ok {
		t.Error("names appear")
	}
}
