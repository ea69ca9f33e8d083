package groupwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// step is what happens: a change of the configurations that leaves these groups, or an event or
// bookmark of a stream.
type step struct {
	change []string
	at     int64
	of     string
	frame  *frame
}

func event1(key string, rev int64) *frame {
	return &frame{kind: watch.Modified, key: key, rev: rev, raw: fmt.Append(nil, key, "@", rev)}
}

func mark(rev int64) *frame {
	return &frame{kind: watch.Bookmark, rev: rev, raw: fmt.Append(nil, "mark@", rev)}
}

func groupsOf(names []string) []ownership.Config {
	var all []ownership.Config
	for _, name := range names {
		all = append(all, ownership.Config{Group: name, Tenants: []string{"t" + name}})
	}
	return all
}

// streams are those of a fake. All that happens is done when its methods return.
type streams struct {
	groups *Groups
	opened []string
	frames map[string]chan *frame
}

func newStreams(groups ...string) *streams {
	s := &streams{groups: Later(nil, logrus.NewEntry(logrus.New())), frames: map[string]chan *frame{}}
	for _, group := range groups {
		s.frames[group] = make(chan *frame)
	}
	return s
}

func (s *streams) open(ctx context.Context, group string, from int64) (frames, io.Closer, error) {
	s.groups.mu.Lock()
	s.opened = append(s.opened, fmt.Sprint(group, "@", from))
	s.groups.mu.Unlock()
	return func() (*frame, error) {
		select {
		case f := <-s.frames[group]:
			return f, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, io.NopCloser(nil), nil
}

func (s *streams) do(step step) {
	if step.frame != nil {
		s.frames[step.of] <- step.frame
	} else {
		s.groups.set(groupsOf(step.change), step.at, false)
	}
	synctest.Wait()
}

// TestOpenings: streams of groups that come and go are opened from the revision that the client
// has of them, or at which they begin.
func TestOpenings(t *testing.T) {
	rest := partitionapi.Rest
	for name, c := range map[string]struct {
		at     position
		before []step // changes that are known in the beginning
		steps  []step
		want   []string // in order of names
		anew   bool
	}{
		"a group that leaves and returns is opened where it returned": {
			at: position{rest: 10, "0": 10, "1": 10}, before: []step{{at: 5, change: []string{"0", "1"}}},
			steps: []step{
				{at: 20, change: []string{"0"}}, {of: "1", frame: event1("a", 15)}, {of: "1", frame: mark(25)},
				{at: 30, change: []string{"0", "1"}},
			},
			want: []string{"-@10", "0@10", "1@10", "1@30"},
		},
		"and again": {
			at: position{rest: 10, "1": 10}, before: []step{{at: 5, change: []string{"1"}}},
			steps: []step{
				{at: 20}, {of: "1", frame: mark(25)}, {at: 30, change: []string{"1"}},
				{at: 40}, {of: "1", frame: mark(45)}, {at: 50, change: []string{"1"}},
			},
			want: []string{"-@10", "1@10", "1@30", "1@50"},
		},
		"after a bookmark of all streams, too": {
			at: position{rest: 10, "1": 10}, before: []step{{at: 5, change: []string{"1"}}},
			steps: []step{
				{at: 20}, {of: "1", frame: mark(25)}, {of: rest, frame: mark(26)}, {at: 30, change: []string{"1"}},
			},
			want: []string{"-@10", "1@10", "1@30"},
		},
		"a group that returns before its stream has reached its end goes on": {
			at: position{rest: 10, "1": 10}, before: []step{{at: 5, change: []string{"1"}}},
			steps: []step{
				{at: 20}, {at: 30, change: []string{"1"}}, {of: "1", frame: mark(35)}, {of: rest, frame: mark(35)},
			},
			want: []string{"-@10", "1@10"},
		},
		"a group that left before the watch was resumed is opened where it returned": {
			at:     position{rest: 25, "0": 28, "1": 22},
			before: []step{{at: 20, change: []string{"0"}}, {at: 30, change: []string{"0", "1"}}},
			want:   []string{"-@25", "0@28", "1@30"},
		},
		"one that was open already goes on where it was": {
			at:     position{rest: 25, "0": 40, "1": 33},
			before: []step{{at: 20, change: []string{"0"}}, {at: 30, change: []string{"0", "1"}}},
			want:   []string{"-@25", "0@40", "1@33"},
		},
		"what others have sent since it returned is not known after a resume": {
			at:     position{rest: 25, "0": 40, "1": 22},
			before: []step{{at: 20, change: []string{"0"}}, {at: 30, change: []string{"0", "1"}}},
			anew:   true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStreams(rest, "0", "1")
				for _, change := range c.before {
					s.do(change)
				}
				m := &merge{groups: s.groups, open: s.open, send: func([]byte, int64, position) error { return nil }}
				tables, _ := s.groups.from(c.at.low())
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- m.run(ctx, tables, c.at) }()
				synctest.Wait()
				for _, step := range c.steps {
					s.do(step)
				}
				cancel()
				if err := <-ended; errors.Is(err, errAnew) != c.anew || !c.anew && err != nil {
					t.Fatal(err)
				}
				if slices.Sort(s.opened); !c.anew && !slices.Equal(s.opened, c.want) {
					t.Errorf("opened are %q, want %q", s.opened, c.want)
				}
			})
		})
	}
}

// TestBookmarksOfShownRevisions: a client that comes back with the revision of an event has seen
// that and maybe not what other streams sent since. So no bookmark has such a revision.
func TestBookmarksOfShownRevisions(t *testing.T) {
	rest := partitionapi.Rest
	for name, c := range map[string]struct {
		from  int64
		steps []step
		want  []string
	}{
		"of an event": {10, []step{
			{of: "1", frame: event1("a", 50)}, {of: rest, frame: event1("b", 45)},
			{of: rest, frame: mark(50)}, {of: "1", frame: mark(50)}, {of: rest, frame: mark(60)}, {of: "1",
				frame: mark(60)},
		}, []string{"a@50", "b@45", "mark@60"}},
		"of one that is not the last of its object": {10, []step{
			{of: "1", frame: event1("a", 50)}, {of: "1", frame: event1("a", 55)},
			{of: rest, frame: mark(50)}, {of: rest, frame: mark(52)},
		}, []string{"a@50", "a@55", "mark@52"}},
		"from which it was resumed": {20, []step{
			{of: rest, frame: mark(20)}, {of: "1", frame: mark(20)}, {of: rest, frame: mark(21)}, {of: "1",
				frame: mark(21)},
		}, []string{"mark@21"}},
		"that an earlier bookmark had": {10, []step{
			{of: rest, frame: mark(20)}, {of: "1", frame: mark(20)}, {of: rest, frame: event1("a", 30)},
			{of: "1", frame: mark(30)}, {of: rest, frame: mark(31)}, {of: "1", frame: mark(31)},
		}, []string{"mark@20", "a@30", "mark@31"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStreams(rest, "1")
				s.do(step{at: 5, change: []string{"1"}})
				var sent []string
				m := &merge{groups: s.groups, open: s.open, bookmarks: true, from: c.from,
					send: func(raw []byte, _ int64, _ position) error {
						sent = append(sent, string(raw))
						return nil
					}}
				tables, _ := s.groups.from(10)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- m.run(ctx, tables, position{rest: 10, "1": 10}) }()
				synctest.Wait()
				for _, step := range c.steps {
					s.do(step)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(sent, c.want) {
					t.Errorf("sent are %q, want %q", sent, c.want)
				}
			})
		})
	}
}
