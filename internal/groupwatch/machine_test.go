package groupwatch

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// step is what happens to a machine: a frame of the last stream that was opened of a group, a change
// that leaves these groups, or time that passes.
type step struct {
	of     string
	frame  *frame
	change []string
	at     int64
	passes time.Duration
}

func modified(key string, rev int64) *frame {
	return &frame{kind: watch.Modified, key: key, rev: rev, raw: fmt.Append(nil, key, "@", rev)}
}

func mark(rev int64) *frame {
	return &frame{kind: watch.Bookmark, rev: rev, raw: fmt.Append(nil, "mark@", rev)}
}

func groupsAt(at int64, groups ...string) since {
	return since{at: at, streams: append(slices.Clone(groups), partitionapi.Rest)}
}

// driven is a machine with the turns of its streams and a clock that the test sets.
type driven struct {
	*machine
	turns map[string]int
	now   time.Time
	did   []string
}

func (d *driven) do(outs []output, err error) error {
	var opened []string
	for _, o := range outs {
		switch {
		case o.open > 0:
			d.turns[o.group] = o.open
			opened = append(opened, fmt.Sprint("open ", o.group, "@", o.from))
		case o.close > 0:
			d.did = append(d.did, "close "+o.group)
		default:
			d.did = append(d.did, string(o.send.raw))
		}
	}
	d.did = append(d.did, opened...)
	return err
}

func (d *driven) step(s step) error {
	switch {
	case s.frame != nil:
		return d.do(d.take(s.of, d.turns[s.of], s.frame, d.now))
	case s.passes > 0:
		d.now = d.now.Add(s.passes)
		return nil
	}
	return d.do(d.change(groupsAt(s.at, s.change...)))
}

// TestMachine is about each transition of a watch. It begins from a list at 10.
func TestMachine(t *testing.T) {
	const rest = partitionapi.Rest
	both := []step{{of: rest, frame: mark(20)}, {of: "1", frame: mark(20)}}
	// An hour passes, in which the streams say where they are: all is forgotten but that.
	forgotten := []step{
		{passes: time.Hour}, {of: rest, frame: mark(90)}, {of: "1", frame: mark(90)}, {passes: time.Hour},
		{of: rest, frame: mark(91)}, {of: "1", frame: mark(91)},
	}
	for name, c := range map[string]struct {
		groups []string
		steps  []step
		resume int64 // afterwards
		tables []since
		then   []step
		want   []string // after the first streams were opened
		anew   bool
	}{
		"events pass": {groups: []string{"1"},
			steps: []step{{of: "1", frame: modified("a", 12)}, {of: rest, frame: modified("b", 11)}},
			want:  []string{"a@12", "b@11"}},
		"an older event of an object does not": {groups: []string{"1"},
			steps: []step{{of: "1", frame: modified("a", 12)}, {of: rest, frame: modified("a", 11)}},
			want:  []string{"a@12"}},
		"an error ends it": {groups: []string{"1"},
			steps: []step{{of: "1", frame: &frame{kind: watch.Error, raw: []byte("gone")}}},
			want:  []string{"gone"}, anew: true},
		"a bookmark waits for all": {groups: []string{"1"},
			steps: []step{{of: "1", frame: mark(20)}, {of: rest, frame: mark(15)}, {of: rest, frame: mark(30)}},
			want:  []string{"mark@15", "mark@20"}},
		"but not for one that is closed": {groups: []string{"1"},
			steps: []step{{of: "1", frame: mark(20)}, {at: 15}, {of: "1", frame: mark(21)},
				{of: rest, frame: mark(30)}},
			want: []string{"close 1", "mark@30"}},

		"a group that leaves and returns is opened where it returned": {groups: []string{"0", "1"},
			steps: []step{{at: 20, change: []string{"0"}}, {of: "1", frame: modified("a", 15)},
				{of: "1", frame: mark(25)}, {at: 30, change: []string{"0", "1"}}},
			want: []string{"a@15", "close 1", "open 1@30"}},
		"and again": {groups: []string{"1"},
			steps: []step{{at: 20}, {of: "1", frame: mark(25)}, {at: 30, change: []string{"1"}},
				{at: 40}, {of: "1", frame: mark(45)}, {at: 50, change: []string{"1"}}},
			want: []string{"close 1", "open 1@30", "close 1", "open 1@50"}},
		"after a bookmark of all streams, too": {groups: []string{"1"},
			steps: []step{{at: 20}, {of: "1", frame: mark(25)}, {of: rest, frame: mark(26)},
				{at: 30, change: []string{"1"}}},
			want: []string{"close 1", "mark@26", "open 1@30"}},
		"one that returns before its stream has reached its end goes on": {groups: []string{"1"},
			steps: []step{{at: 20}, {at: 30, change: []string{"1"}}, {of: "1", frame: modified("a", 35)}},
			want:  []string{"a@35"}},
		"a group that comes": {groups: []string{"1"},
			steps: []step{{of: "1", frame: modified("a", 12)}, {at: 20, change: []string{"1", "2"}},
				{of: "2", frame: modified("a", 21)}},
			want: []string{"a@12", "open 2@20", "a@21"}},
		"of which the client learns late": {groups: []string{"1"},
			steps: []step{{of: "1", frame: modified("a", 80)}, {at: 20, change: []string{"1", "2"}},
				{of: "2", frame: modified("a", 21)}},
			want: []string{"a@80", "open 2@20"}},
		"of which it learns too late": {groups: []string{"1"},
			steps: append(slices.Clone(forgotten), step{at: 20, change: []string{"1", "2"}}),
			want:  []string{"mark@90", "mark@91"}, anew: true},
		"what comes of a stream that was closed is nothing": {groups: []string{"1"},
			steps: []step{{at: 20}, {of: "1", frame: mark(25)}, {of: "1", frame: modified("a", 19)}},
			want:  []string{"close 1"}},

		"no bookmark has the revision of an event": {groups: []string{"1"},
			steps: []step{{of: "1", frame: modified("a", 50)}, {of: rest, frame: modified("b", 45)},
				{of: rest, frame: mark(50)}, {of: "1", frame: mark(50)}, {of: rest, frame: mark(60)},
				{of: "1", frame: mark(60)}},
			want: []string{"a@50", "b@45", "mark@60"}},
		"also not of one that is not the last of its object": {groups: []string{"1"},
			steps: []step{{of: "1", frame: modified("a", 50)}, {of: "1", frame: modified("a", 55)},
				{of: rest, frame: mark(50)}, {of: rest, frame: mark(52)}},
			want: []string{"a@50", "a@55", "mark@52"}},
		"nor that of the list": {groups: []string{"1"},
			steps: append([]step{{of: rest, frame: mark(10)}, {of: "1", frame: mark(10)}}, both...),
			want:  []string{"mark@20"}},

		"a client comes back with an event": {groups: []string{"1"},
			steps: []step{{of: "1", frame: modified("a", 50)}, {of: rest, frame: modified("b", 45)},
				{of: "1", frame: modified("c", 51)}},
			resume: 45, then: []step{{of: "1", frame: modified("c", 51)}},
			want: []string{"a@50", "b@45", "c@51", "open 1@50", "open -@45", "c@51"}},
		"with an earlier one, and gets again what it has not seen of an object": {groups: []string{"1"},
			steps: []step{{of: "1", frame: modified("a", 50)}, {of: rest, frame: modified("b", 45)},
				{of: "1", frame: modified("a", 51)}},
			resume: 45, then: []step{{of: "1", frame: modified("a", 51)}},
			want: []string{"a@50", "b@45", "a@51", "open 1@50", "open -@45", "a@51"}},
		"with a bookmark": {groups: []string{"1"}, steps: both, resume: 20,
			want: []string{"mark@20", "open 1@20", "open -@20"}},
		"no object goes back though its tenant has moved": {groups: []string{"0", "1"},
			// At 35 from group 1 to group 0.
			steps:  []step{{of: "0", frame: modified("a", 38)}},
			resume: 38, tables: []since{groupsAt(5, "0", "1"), groupsAt(35, "0", "1")},
			then: []step{{of: "1", frame: modified("a", 32)}, {of: "1", frame: modified("b", 33)}},
			want: []string{"a@38", "open 0@38", "open 1@10", "open -@10", "b@33"}},
		"a group that left is opened where it returned": {groups: []string{"0", "1"},
			steps: []step{{at: 20, change: []string{"0"}}, {of: "1", frame: mark(22)}, {of: rest, frame: mark(25)},
				{of: "0", frame: modified("a", 28)}},
			resume: 28, tables: []since{groupsAt(20, "0"), groupsAt(30, "0", "1")},
			want: []string{"close 1", "a@28", "mark@25", "open 0@28", "open -@25", "open 1@30"}},
		"one that has returned goes on where it was": {groups: []string{"0"},
			steps: []step{{at: 30, change: []string{"0", "1"}}, {of: "1", frame: modified("b", 33)},
				{of: "0", frame: modified("a", 40)}},
			resume: 40, tables: []since{groupsAt(5, "0"), groupsAt(30, "0", "1")},
			want: []string{"open 1@30", "b@33", "a@40", "open 0@40", "open -@10", "open 1@33"}},
		"the revision of a bookmark is also that of an event of a group that came": {groups: []string{"1"},
			steps: []step{{of: "1", frame: mark(27)}, {of: rest, frame: mark(27)},
				{at: 24, change: []string{"1", "2"}},
				{of: "2", frame: modified("a", 27)}},
			resume: 27, want: []string{"mark@27", "open 2@24", "a@27"}, anew: true},
		"a group that came and left and of which the client did not know then": {groups: []string{"1"},
			steps:  []step{{of: rest, frame: modified("a", 49)}, {of: "1", frame: modified("b", 50)}},
			resume: 50, tables: []since{groupsAt(5, "1"), groupsAt(20, "1", "2"), groupsAt(40, "1")},
			then: []step{{of: "2", frame: modified("c", 30)}, {of: "2", frame: mark(40)}},
			want: []string{"a@49", "b@50", "open 1@50", "open -@49", "open 2@20", "c@30", "close 2", "mark@40"}},
		"one that was not there and is not known of": {groups: []string{"1"},
			steps: []step{{of: "1", frame: modified("a", 50)}}, resume: 50,
			tables: []since{groupsAt(5, "1", "2")}, want: []string{"a@50"}, anew: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &driven{machine: newMachine(), turns: map[string]int{}, now: time.Unix(1e9, 0)}
			d.bookmarks = true
			table := groupsAt(5, c.groups...)
			if err := d.do(d.begin(10, []since{table})); err != nil {
				t.Fatal(err)
			}
			d.did = nil
			var err error
			for _, s := range c.steps {
				if err = d.step(s); err != nil {
					break
				}
			}
			if err == nil && c.resume > 0 {
				if c.tables == nil {
					c.tables = []since{table}
				}
				if _, times := d.has(c.resume); times != 1 {
					err = errAnew
				} else {
					err = d.do(d.machine.resume(c.resume, c.tables))
				}
			}
			for _, s := range c.then {
				if err == nil {
					err = d.step(s)
				}
			}
			if errors.Is(err, errAnew) != c.anew || !c.anew && err != nil {
				t.Errorf("it ends with %v", err)
			}
			if !slices.Equal(d.did, c.want) {
				t.Errorf("it did %q, want %q", d.did, c.want)
			}
		})
	}
}
