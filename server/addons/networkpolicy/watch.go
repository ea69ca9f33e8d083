package networkpolicy

import (
	"maps"
	"reflect"
	"slices"

	"github.com/a4s-io/a4s/internal/netpolicy"
)

// Watch is what one node is told.
type Watch struct {
	c     *Controller
	node  string
	wake  chan struct{}
	done  chan struct{}
	dirty map[string]bool // spaces; guarded by c.mu

	told map[string]*spacePolicies // by space
	off  bool
}

// spacePolicies is what a node knows of the policies of one space.
type spacePolicies struct {
	pods     map[string]*netpolicy.Pod
	policies map[string]*netpolicy.Policy
	sets     map[string]*set
}

// Watch returns a watch for the node, that begins with everything; false while
// not everything is known. Stop ends it.
func (c *Controller) Watch(node string) (*Watch, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return nil, false
	}
	w := &Watch{c: c, node: node, wake: make(chan struct{}, 1), done: make(chan struct{}), dirty: map[string]bool{},
		told: map[string]*spacePolicies{}}
	for name := range c.results {
		w.dirty[name] = true
	}
	c.watches[w] = true
	return w, true
}

// Stop ends the watch.
func (w *Watch) Stop() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	delete(w.c.watches, w)
}

// Changed receives when Next may have something to tell.
func (w *Watch) Changed() <-chan struct{} { return w.wake }

// Done is closed when the watch must end.
func (w *Watch) Done() <-chan struct{} { return w.done }

// Next returns what the node was not told yet, without the end of the batch.
// Only one goroutine may call it.
func (w *Watch) Next() []netpolicy.Line {
	w.c.mu.Lock()
	off := w.c.off
	dirty := map[string]*result{}
	for name := range w.dirty {
		dirty[name] = w.c.results[name]
	}
	w.dirty = map[string]bool{}
	if !off && w.off { // everything is new
		dirty = maps.Clone(w.c.results)
	}
	w.c.mu.Unlock()

	var lines []netpolicy.Line
	if off {
		if !w.off {
			lines = append(lines, netpolicy.Line{Off: true})
		}
		w.off, w.told = true, map[string]*spacePolicies{}
		return lines
	}
	w.off = false
	for _, name := range slices.Sorted(maps.Keys(dirty)) {
		next := dirty[name].part(w.node)
		lines = append(lines, difference(w.told[name], next)...)
		w.told[name] = next
		if len(next.pods) == 0 {
			delete(w.told, name)
		}
	}
	return lines
}

// part returns what concerns one node.
func (r *result) part(node string) *spacePolicies {
	p := &spacePolicies{policies: map[string]*netpolicy.Policy{}, sets: map[string]*set{}}
	if r == nil {
		return p
	}
	p.pods = r.nodes[node]
	for _, pod := range p.pods {
		for _, id := range slices.Concat(pod.Ingress, pod.Egress) {
			policy := r.policies[id]
			if p.policies[id] != nil {
				continue
			}
			p.policies[id] = policy
			for _, rule := range slices.Concat(policy.Ingress, policy.Egress) {
				for _, set := range append([]string{rule.Peers}, rule.Named...) {
					if set != "" {
						p.sets[set] = r.sets[set]
					}
				}
			}
		}
	}
	return p
}

// difference returns what turns old, which may be nil, into next.
func difference(old, next *spacePolicies) (lines []netpolicy.Line) {
	if old == nil {
		old = &spacePolicies{}
	}
	for _, id := range slices.Sorted(maps.Keys(next.sets)) {
		s, before := next.sets[id], old.sets[id]
		if before == nil {
			before = &set{}
		} else if s == before {
			continue
		}
		line := &netpolicy.Set{ID: id, Endpoints: s.endpoints, Add: missing(s, before), Remove: missing(before, s)}
		if old.sets[id] == nil || len(line.Add)+len(line.Remove) > 0 {
			lines = append(lines, netpolicy.Line{Set: line})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(next.policies)) {
		if !reflect.DeepEqual(old.policies[id], next.policies[id]) {
			lines = append(lines, netpolicy.Line{Policy: next.policies[id]})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(next.pods)) {
		if !reflect.DeepEqual(old.pods[key], next.pods[key]) {
			lines = append(lines, netpolicy.Line{Pod: next.pods[key]})
		}
	}
	for key, p := range old.pods {
		if next.pods[key] == nil {
			lines = append(lines,
				netpolicy.Line{Pod: &netpolicy.Pod{Namespace: p.Namespace, Name: p.Name, Deleted: true}})
		}
	}
	for id := range old.policies {
		if next.policies[id] == nil {
			lines = append(lines, netpolicy.Line{Policy: &netpolicy.Policy{ID: id, Deleted: true}})
		}
	}
	for id := range old.sets {
		if next.sets[id] == nil {
			lines = append(lines, netpolicy.Line{Set: &netpolicy.Set{ID: id, Deleted: true}})
		}
	}
	return lines
}

// missing returns the members of s that other does not have.
func missing(s, other *set) (out []netpolicy.Member) {
	for m := range s.members {
		if !other.members[m] {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b netpolicy.Member) int { return a.Addr.Compare(b.Addr) })
	return out
}
