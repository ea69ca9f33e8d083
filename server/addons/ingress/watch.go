package ingress

import (
	"maps"
	"reflect"
	"slices"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// published is what nodes are told, and those that are.
type published struct {
	lines   map[string]*joinapi.IngressLine // by kind and name; replaced, never changed
	watches map[*Watch]bool
}

func newPublished() published {
	return published{lines: map[string]*joinapi.IngressLine{}, watches: map[*Watch]bool{}}
}

// linesOf are the lines of a space by their keys. r may be nil.
func linesOf(r *result) map[string]*joinapi.IngressLine {
	out := map[string]*joinapi.IngressLine{}
	if r == nil {
		return out
	}
	add := func(l *joinapi.IngressLine) { out[l.Key()] = l }
	for _, h := range r.hosts {
		add(&joinapi.IngressLine{Host: h})
	}
	for _, b := range r.backends {
		add(&joinapi.IngressLine{Backend: b})
	}
	for _, c := range r.certificates {
		add(&joinapi.IngressLine{Certificate: c})
	}
	return out
}

func tenantOf(l *joinapi.IngressLine) string {
	switch {
	case l == nil:
		return ""
	case l.Host != nil:
		return l.Host.Tenant
	case l.Backend != nil:
		return l.Backend.Tenant
	case l.Certificate != nil:
		return l.Certificate.Tenant
	}
	return ""
}

// replace takes over what became of a space that was something else before.
func (p *published) replace(was, now *result) {
	before, after := linesOf(was), linesOf(now)
	changed := map[string]bool{}
	for key, line := range after {
		if !reflect.DeepEqual(p.lines[key], line) {
			p.lines[key], changed[key] = line, true
		}
	}
	for key, line := range before {
		// A host may be another's by now.
		if after[key] == nil && tenantOf(p.lines[key]) == tenantOf(line) {
			delete(p.lines, key)
			changed[key] = true
		}
	}
	if len(changed) == 0 {
		return
	}
	for w := range p.watches {
		maps.Copy(w.dirty, changed)
		w.awake()
	}
}

// look has the watches of nodes look at everything.
func (p *published) look(nodes map[string]bool) {
	for w := range p.watches {
		if nodes[w.node] {
			w.everything = true
			w.awake()
		}
	}
}

// end ends all watches.
func (p *published) end() {
	for w := range p.watches {
		close(w.done)
	}
}

// Watch is what one node is told.
type Watch struct {
	c          *Controller
	node       string
	wake, done chan struct{}
	// dirty and everything are what it has to look at; guarded by c.mu.
	dirty      map[string]bool
	everything bool

	told map[string]*joinapi.IngressLine
}

// Watch returns a watch for the node, that begins with everything; false while not everything is known.
// Stop ends it.
func (c *Controller) Watch(node string) (*Watch, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return nil, false
	}
	w := &Watch{c: c, node: node, wake: make(chan struct{}, 1), done: make(chan struct{}), dirty: map[string]bool{},
		everything: true, told: map[string]*joinapi.IngressLine{}}
	c.told.watches[w] = true
	return w, true
}

// Stop ends the watch.
func (w *Watch) Stop() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	delete(w.c.told.watches, w)
}

// Changed receives when Next may have something to tell.
func (w *Watch) Changed() <-chan struct{} { return w.wake }

// Done is closed when the watch must end.
func (w *Watch) Done() <-chan struct{} { return w.done }

func (w *Watch) awake() {
	select {
	case w.wake <- struct{}{}:
	default: // it has not looked yet
	}
}

// Next returns what the node was not told yet, without the end of the batch; false if the watch has ended, and nothing
// is known. Only one goroutine may call it.
func (w *Watch) Next() (lines []joinapi.IngressLine, ok bool) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if !w.c.told.watches[w] {
		return nil, false
	}
	dirty := w.dirty
	if w.everything {
		dirty = map[string]bool{}
		for key := range w.c.told.lines {
			dirty[key] = true
		}
		for key := range w.told {
			dirty[key] = true
		}
	}
	w.dirty, w.everything = map[string]bool{}, false
	known := map[string]bool{}
	takes := func(tenant string) bool {
		is, ok := known[tenant]
		if node := w.c.nodes.pool[w.node]; !ok && node != nil {
			is = w.c.nodes.takes(node, tenant)
			known[tenant] = is
		}
		return is
	}
	for _, key := range slices.Sorted(maps.Keys(dirty)) {
		was, now := w.told[key], w.c.told.lines[key]
		switch {
		case now != nil && takes(tenantOf(now)):
			if was != now {
				w.told[key] = now
				lines = append(lines, *now)
			}
		case was != nil:
			delete(w.told, key)
			lines = append(lines, was.Deletion())
		}
	}
	return lines, true
}
