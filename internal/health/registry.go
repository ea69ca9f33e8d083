package health

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/a4s-io/a4s/internal/problem"
)

// Problem is a condition that holds for a subject.
type Problem struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
	// Subject is what it is about: a component, a file, a directory.
	Subject string `json:"subject,omitempty"`
	// Detail is what was found.
	Detail string    `json:"detail,omitempty"`
	Cause  string    `json:"cause"`
	Fix    string    `json:"fix"`
	Since  time.Time `json:"since,omitzero"`
}

// Holding is a condition that holds for a subject, whether it is to be shown or not.
type Holding struct {
	Code    Code   `json:"code"`
	Subject string `json:"subject,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

type subject struct {
	code Code
	name string
}

type state struct {
	detail string
	since  time.Time
}

// Registry knows which conditions hold. Its methods may be called at any time.
type Registry struct {
	table []Condition
	now   func() time.Time

	mu  sync.Mutex
	set map[subject]state
}

// NewRegistry returns a registry in which nothing is wrong.
func NewRegistry() *Registry {
	return &Registry{table: Conditions(), now: time.Now, set: map[subject]state{}}
}

// Set says that a condition holds for a subject, "" if there is only one.
func (r *Registry) Set(code Code, name, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := subject{code, name}
	s, ok := r.set[k]
	if !ok {
		s.since = r.now()
	}
	s.detail = problem.Line(detail) // which can have words of anybody in it
	r.set[k] = s
}

// Clear says that a condition does not hold for a subject.
func (r *Registry) Clear(code Code, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.set, subject{code, name})
}

// Report sets the condition or clears it.
func (r *Registry) Report(holds bool, code Code, name, detail string) {
	if holds {
		r.Set(code, name, detail)
	} else {
		r.Clear(code, name)
	}
}

// Keep clears the condition for every subject but those named, as when what
// it was about is no longer there.
func (r *Registry) Keep(code Code, names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.set {
		if k.code == code && !slices.Contains(names, k.name) {
			delete(r.set, k)
		}
	}
}

// Holdings returns all that hold.
func (r *Registry) Holdings() []Holding {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Holding, 0, len(r.set))
	for k, s := range r.set {
		out = append(out, Holding{Code: k.code, Subject: k.name, Detail: s.detail})
	}
	return out
}

// Problems returns what is to be shown, in the order of the table.
func (r *Registry) Problems() []Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	codes := map[Code]bool{}
	for k := range r.set {
		codes[k.code] = true
	}
	now := r.now()
	out := []Problem{}
	for k, s := range r.set {
		c, _ := conditionOf(r.table, k.code)
		if now.Sub(s.since) < c.TimeToVisible ||
			slices.ContainsFunc(c.DependsOn, func(d Code) bool { return codes[d] }) {
			continue
		}
		out = append(out, Problem{
			Code: c.Code, Severity: c.Severity, Title: c.Title, Subject: k.name, Detail: s.detail,
			Cause: c.Cause, Fix: c.Fix, Since: s.since.UTC().Truncate(time.Second),
		})
	}
	slices.SortFunc(out, func(a, b Problem) int {
		_, i := conditionOf(r.table, a.Code)
		_, j := conditionOf(r.table, b.Code)
		return cmp.Or(cmp.Compare(i, j), cmp.Compare(a.Subject, b.Subject))
	})
	return out
}
