package ownership

import "slices"

// remembered is how many changes a History keeps. What was before the oldest one nobody knows.
const remembered = 1000

// Dated is something that is in force from a revision on, until the next one is.
type Dated interface{ Since() int64 }

// History is what was in force, in the order of revisions. The zero value knows nothing. It has no
// lock; what it returns does not change.
type History[T Dated] struct{ all []T }

// Begin forgets everything: between what was known and this one there may have been others.
func (h *History[T]) Begin(one T) { h.all = []T{one} }

// Add has the next one.
func (h *History[T]) Add(one T) {
	if len(h.all) == remembered {
		h.all = h.all[1:]
	}
	h.all = append(h.all, one)
}

// Ends are the oldest one that is known and the last one; ok is false if nothing is known.
func (h *History[T]) Ends() (oldest, last T, ok bool) {
	if len(h.all) == 0 {
		return oldest, last, false
	}
	return h.all[0], h.all[len(h.all)-1], true
}

// At is what was in force at a revision; ok is false if that is forgotten.
func (h *History[T]) At(rev int64) (one T, ok bool) {
	if i := h.after(rev); i > 0 {
		return h.all[i-1], true
	}
	return one, false
}

// From is what was in force at a revision, and what came after it; ok is false if the former is
// forgotten.
func (h *History[T]) From(rev int64) (_ []T, ok bool) {
	if i := h.after(rev); i > 0 {
		return slices.Clip(h.all[i-1:]), true
	}
	return nil, false
}

// After is what came after a revision; ok is false if some of it may be forgotten.
func (h *History[T]) After(rev int64) (_ []T, ok bool) {
	i := h.after(rev)
	return slices.Clip(h.all[i:]), i > 0
}

// after is the index of the first one after a revision.
func (h *History[T]) after(rev int64) int {
	i := len(h.all)
	for i > 0 && h.all[i-1].Since() > rev {
		i--
	}
	return i
}
