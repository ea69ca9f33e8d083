package proxy

import (
	"math/rand/v2"
	"sort"
	"strings"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// route is an IngressPath: which requests it has, beside their path, and what becomes of them. It never changes.
type route struct {
	// conditions is nil if the path is all.
	conditions *conditions
	// parts are backends that have a weight.
	parts []part
	filters
	// redirect and rewrite are nil if there is none.
	redirect *redirect
	rewrite  *rewrite
	// timeout and backendTimeout are 0 if there is none.
	timeout, backendTimeout time.Duration
}

// part is a backend that has some of the requests of a route.
type part struct {
	// backend is an ID, "" if there is none that may be used.
	backend string
	// until is the sum of the weights of all parts up to this one.
	until int64
	filters
}

func newRoute(told *joinapi.IngressPath) *route {
	r := &route{
		conditions: newConditions(told), filters: newFilters(told.Filters),
		timeout: max(0, told.Timeout), backendTimeout: max(0, told.BackendTimeout),
	}
	if told.Backend != "" {
		r.parts = []part{{backend: told.Backend, until: 1}}
	} else {
		r.parts = newParts(told.Split)
	}
	if f := told.Filters; f != nil {
		depth := depthOf(told.Path)
		r.redirect, r.rewrite = newRedirect(f.Redirect, depth), newRewrite(f.Rewrite, depth)
	}
	return r
}

func newParts(told []joinapi.IngressPart) (parts []part) {
	var sum int64
	for _, p := range told {
		if p.Weight > 0 {
			sum += int64(p.Weight)
			parts = append(parts, part{backend: p.Backend, until: sum, filters: newFilters(p.Filters)})
		}
	}
	return parts
}

// depthOf is how many elements a path has.
func depthOf(path string) int {
	if path = strings.Trim(path, "/"); path == "" {
		return 0
	}
	return strings.Count(path, "/") + 1
}

// choose returns the part that has a request, nil if there is none with a backend.
func (r *route) choose() *part {
	n := len(r.parts)
	if n == 0 {
		return nil
	}
	chosen := &r.parts[0]
	if n > 1 {
		chosen = r.partAt(rand.Int64N(r.parts[n-1].until)) //nolint:gosec // nobody gains by a guess
	}
	if chosen.backend == "" {
		return nil
	}
	return chosen
}

// partAt returns the part that has a number below the sum of all weights.
func (r *route) partAt(number int64) *part {
	return &r.parts[sort.Search(len(r.parts), func(i int) bool { return r.parts[i].until > number })]
}
