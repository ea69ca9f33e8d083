package groupwatch

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// happened is one revision of a datastore: a write of an object.
type happened struct {
	rev   int64
	key   string
	kind  watch.EventType
	owner string // of the key, at the revision
}

// world is a datastore, servers that give its streams, and a client with one watch, in one goroutine
// and by a clock of its own.
type world struct {
	random *rand.Rand
	now    time.Time
	fails  func(format string, args ...any)

	rev    int64
	all    []happened
	owners map[string]string // of tenants
	live   map[string]int64  // what there is
	// compacted is the revision up to which no stream can be opened.
	compacted int64

	// configs are who owned what, of which the client has learned so many.
	configs []since
	learned int
	oldest  int // of those that it has learned

	memory  memory
	session *session
	// cursors are where the open streams are, by group.
	cursors map[string]*cursor
	// coming is on its way to the client.
	coming []sent

	client
	// past is what the client was at each of the last things that it saw.
	past []client

	resumes, anews, bookmarks, moves, backs int
}

// sent is a frame, and how much its sender knew of the configurations.
type sent struct {
	*frame
	learned int
}

type cursor struct {
	turn int
	at   int64
	next int // the index of what may come next
}

// client is what a client has: of each object the last revision that it saw, also of those that are
// gone, from a list on.
type client struct {
	at      int64 // its resourceVersion
	floor   int64 // of its list
	seen    map[string]int64
	objects map[string]int64
}

var tenants = []string{"s", "t0", "t1", "t2", "t3"}

func newWorld(seed uint64, fails func(string, ...any)) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 41)), now: time.Unix(1e9, 0), fails: fails, rev: 1,
		owners: map[string]string{}, live: map[string]int64{}}
	w.move()
	w.learned = 1
	w.list(true)
	return w
}

// write makes, changes or deletes an object.
func (w *world) write() {
	tenant := tenants[w.random.IntN(len(tenants))]
	key := fmt.Sprint(tenant, "/", w.random.IntN(3))
	w.rev += 1 + w.random.Int64N(2) // there are other resources
	kind := watch.Modified
	if _, is := w.live[key]; is && w.random.IntN(3) == 0 {
		kind = watch.Deleted
	}
	owner := w.owners[tenant]
	if owner == "" {
		owner = partitionapi.Rest
	}
	w.all = append(w.all, happened{rev: w.rev, key: key, kind: kind, owner: owner})
	if w.live[key] = w.rev; kind == watch.Deleted {
		delete(w.live, key)
	}
}

// move gives some tenants to other groups, or to none.
func (w *world) move() {
	w.rev++
	for range 1 + w.random.IntN(2) {
		w.owners[tenants[1+w.random.IntN(len(tenants)-1)]] = []string{"", "0", "1", "2"}[w.random.IntN(4)]
	}
	var groups []string
	for _, owner := range w.owners {
		if owner != "" {
			groups = append(groups, owner)
		}
	}
	slices.Sort(groups)
	w.configs = append(w.configs, groupsAt(w.rev, slices.Compact(groups)...))
	w.moves++
}

// tables are those that the client knows, as Groups gives them.
func (w *world) tables(rev int64) ([]since, bool) {
	for i := w.learned - 1; i >= w.oldest; i-- {
		if w.configs[i].at <= rev {
			return w.configs[i:w.learned], true
		}
	}
	return nil, false
}

// list is a list of everything, at a revision that is not older than what is known of the groups, or
// the most recent one.
func (w *world) list(recent bool) {
	w.end()
	w.memory.forget("w")
	from := w.configs[w.oldest].at
	at := from + w.random.Int64N(w.rev-from+1)
	if recent {
		at = w.rev
	}
	w.client = client{at: at, floor: at, seen: map[string]int64{}, objects: map[string]int64{}}
	for _, h := range w.all {
		if h.rev > at {
			break
		}
		if w.objects[h.key] = h.rev; h.kind == watch.Deleted {
			delete(w.objects, h.key)
		}
	}
	w.past = []client{w.copy()}
	w.begin()
}

func (c client) copy() client {
	c.seen, c.objects = maps.Clone(c.seen), maps.Clone(c.objects)
	return c
}

// begin asks for a watch from where the client is.
func (w *world) begin() {
	w.cursors = map[string]*cursor{}
	s, outs, err := w.memory.begin("w", w.at, true, w.tables)
	if w.session = s; err != nil {
		w.anews++
		return // it lists next
	}
	w.do(outs, nil)
}

// end ends the watch. What is on its way the client does not see.
func (w *world) end() {
	if w.session != nil {
		w.session.close()
	}
	w.session, w.coming, w.cursors = nil, nil, nil
}

// do does what the machine says, as merge does.
func (w *world) do(outs []output, err error) {
	for _, o := range outs {
		switch {
		case o.open > 0:
			if o.from < w.compacted {
				err = errAnew
			}
			next, _ := slices.BinarySearchFunc(w.all, o.from+1, func(h happened, rev int64) int {
				return int(h.rev - rev)
			})
			w.cursors[o.group] = &cursor{turn: o.open, at: o.from, next: next}
		case o.close > 0:
			if w.cursors[o.group].turn == o.close {
				delete(w.cursors, o.group)
			}
		default:
			w.coming = append(w.coming, sent{o.send, w.learned})
		}
	}
	if err != nil {
		w.anews++
		w.read(len(w.coming))
		w.session.lose()
		w.end()
	}
}

func (w *world) happens(f func(m *machine) ([]output, error)) {
	if w.session == nil {
		return
	}
	outs, _, err := w.session.do(f)
	w.do(outs, err)
}

// learn lets the client hear of the next change.
func (w *world) learn() {
	if w.learned < len(w.configs) {
		t := w.configs[w.learned]
		w.learned++
		w.happens(func(m *machine) ([]output, error) { return m.change(t) })
	}
}

// stream lets something come of a stream: its next event, or a bookmark.
func (w *world) stream(group string, event bool) {
	c := w.cursors[group]
	for c.next < len(w.all) && w.all[c.next].owner != group {
		c.next++
	}
	f := &frame{kind: watch.Bookmark, rev: w.rev, raw: []byte{}}
	if c.next < len(w.all) {
		h := w.all[c.next]
		f.rev = h.rev - 1
		if event {
			f.kind, f.key, f.rev = h.kind, h.key, h.rev
			c.next++
		}
	} else if event {
		return
	}
	if f.kind == watch.Bookmark && f.rev > c.at {
		f.rev = c.at + 1 + w.random.Int64N(f.rev-c.at)
	}
	if f.rev <= c.at {
		return
	}
	c.at = f.rev
	w.happens(func(m *machine) ([]output, error) { return m.take(group, c.turn, f, w.now) })
}

// read lets the client see what is on its way.
func (w *world) read(n int) {
	for _, f := range w.coming[:n] {
		w.at = f.rev
		if f.kind == watch.Bookmark {
			w.bookmarks++
			w.complete(f.rev, f.learned)
		} else {
			if last := max(w.seen[f.key], w.floor); f.rev <= last {
				w.fails("%s is shown at %d after %d", f.key, f.rev, last)
			}
			w.seen[f.key] = f.rev
			if w.objects[f.key] = f.rev; f.kind == watch.Deleted {
				delete(w.objects, f.key)
			}
		}
		if w.past = append(w.past, w.copy()); len(w.past) > 40 {
			w.past = w.past[1:]
		}
	}
	w.coming = w.coming[n:]
}

// complete checks that the client has seen everything up to a revision, unless there were groups of
// which it did not know.
func (w *world) complete(rev int64, learned int) {
	if learned < len(w.configs) && w.configs[learned].at <= rev {
		return
	}
	for _, h := range w.all {
		if h.rev > w.floor && h.rev <= rev && w.seen[h.key] < h.rev {
			w.fails("at %d %s is at %d, not %d", rev, h.key, w.seen[h.key], h.rev)
			return
		}
	}
}

// settle lets all come that there is. The client has then what the datastore has.
func (w *world) settle() {
	for w.learned < len(w.configs) {
		w.learn()
	}
	for range 3 { // it may have to begin anew
		if w.session == nil {
			w.list(true)
		}
		for _, group := range slices.Sorted(maps.Keys(w.cursors)) {
			for n := -1; w.cursors[group] != nil && n != w.cursors[group].next; {
				n = w.cursors[group].next
				w.stream(group, true)
			}
		}
		w.read(len(w.coming))
	}
	if !maps.Equal(w.objects, w.live) {
		w.fails("the client has %v, the datastore %v", w.objects, w.live)
	}
}

// step is something that happens.
func (w *world) step() {
	switch n := w.random.IntN(1000); {
	case n < 300:
		w.write()
	case n < 700:
		groups := slices.Sorted(maps.Keys(w.cursors))
		if len(groups) > 0 {
			w.stream(groups[w.random.IntN(len(groups))], w.random.IntN(4) > 0)
		}
	case n < 850:
		w.read(w.random.IntN(len(w.coming) + 1))
	case n < 900:
		w.now = w.now.Add(time.Duration(w.random.Int64N(int64(20 * time.Second))))
	case n < 920:
		w.move()
	case n < 950:
		w.learn()
	case n < 980: // the client comes back, with what it saw last or with what it saw earlier
		w.end()
		if i := len(w.past) - 1 - w.random.IntN(len(w.past)); w.random.IntN(3) == 0 {
			w.client, w.past = w.past[i].copy(), w.past[:i+1]
			w.backs++
		}
		w.resumes++
		w.begin()
	case n < 985:
		w.compacted = max(w.compacted, w.rev-w.random.Int64N(100))
	case n < 987 && w.learned == len(w.configs): // the configurations were listed again
		w.oldest = w.learned - 1
	case n < 990:
		w.settle()
	}
	if w.session == nil || len(w.cursors) == 0 {
		w.list(w.random.IntN(2) == 0)
	}
}

// TestMachineAgainstAHistory compares what a client sees that has a machine with what happened one
// after the other, over hours: nothing is lost, no object goes back, and a bookmark has all. It takes
// a second; A4S_MACHINE_TIME=1h makes it longer, and A4S_MACHINE_SEED repeats a run, or begins with it if
// both are set.
func TestMachineAgainstAHistory(t *testing.T) {
	lasts := time.Second
	if s := os.Getenv("A4S_MACHINE_TIME"); s != "" {
		var err error
		if lasts, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	seed, once := uint64(1), false
	if s := os.Getenv("A4S_MACHINE_SEED"); s != "" {
		var err error
		once = os.Getenv("A4S_MACHINE_TIME") == ""
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	var total world
	failed := errors.New("")
	for end := time.Now().Add(lasts); ; seed++ {
		var w *world
		steps := 0
		w = newWorld(seed, func(format string, args ...any) {
			failed = fmt.Errorf("seed %d, step %d: %s", seed, steps, fmt.Sprintf(format, args...))
		})
		failed = nil
		for ; steps < 3000 && failed == nil; steps++ {
			w.step()
		}
		if failed == nil {
			w.settle()
		}
		if failed != nil {
			t.Fatal(failed)
		}
		total.resumes += w.resumes
		total.anews += w.anews
		total.bookmarks += w.bookmarks
		total.moves += w.moves
		total.now = total.now.Add(w.now.Sub(time.Unix(1e9, 0)))
		if once || time.Now().After(end) {
			break
		}
	}
	t.Logf("%s in %d runs: %d moves, %d resumes, %d bookmarks, %d times anew", total.now.Sub(time.Time{}), seed,
		total.moves, total.resumes, total.bookmarks, total.anews)
	if total.anews > total.resumes {
		t.Error("clients begin anew more often than they come back")
	}
}
