package ingress

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// lines are what one partition told, by kind and name.
type lines map[string]joinapi.IngressLine

// told is what the partitions of the cluster told this node.
type told struct {
	mu  sync.Mutex
	all map[string]lines
	// changed is closed, and replaced, when something changes.
	changed chan struct{}
}

func newTold() *told {
	return &told{all: map[string]lines{}, changed: make(chan struct{})}
}

// set replaces what a partition told; nil forgets it.
func (t *told) set(partition string, now lines) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(now) == 0 && len(t.all[partition]) == 0 {
		return // as before
	}
	if t.all[partition] = now; len(now) == 0 {
		delete(t.all, partition)
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// current is what holds now: what the first partition told that told anything. A node is for the Ingresses of
// one, so there are two only while that changes. What it returns is not changed any more.
func (t *told) current() (lines, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) == 0 {
		return nil, t.changed
	}
	return t.all[slices.Min(slices.Collect(maps.Keys(t.all)))], t.changed
}

// with is what is told after a batch.
func (l lines) with(batch []joinapi.IngressLine) lines {
	next := maps.Clone(l)
	if next == nil {
		next = lines{}
	}
	for _, line := range batch {
		switch key := line.Key(); {
		case key == "":
		case line.IsDeletion():
			delete(next, key)
		default:
			next[key] = line
		}
	}
	return next
}

// since is the batch that turns what was told into what holds now.
func (l lines) since(was lines) []joinapi.IngressLine {
	var out []joinapi.IngressLine
	for _, key := range slices.Sorted(maps.Keys(l)) {
		if before, ok := was[key]; !ok || !reflect.DeepEqual(before, l[key]) {
			out = append(out, l[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(was)) {
		if _, ok := l[key]; !ok {
			out = append(out, was[key].Deletion())
		}
	}
	return out
}

// hosts reports whether there is one.
func (l lines) hosts() bool {
	for _, line := range l {
		if line.Host != nil {
			return true
		}
	}
	return false
}

// reader is one connection to a server.
type reader struct {
	to        *told
	partition string
	now       lines
	batch     []joinapi.IngressLine
	complete  bool
}

// Line implements serverstream.Reader.
func (r *reader) Line(l joinapi.IngressLine) bool {
	if !l.Complete {
		r.batch = append(r.batch, l)
		return r.complete
	}
	if len(r.batch) > 0 || !r.complete {
		r.now = r.now.with(r.batch)
		r.to.set(r.partition, r.now)
	}
	r.batch, r.complete = nil, true
	return true
}
