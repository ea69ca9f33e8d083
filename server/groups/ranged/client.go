package ranged

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/ownership"
)

// Changes is told what a watch holds. A method returns before the watch goes on.
type Changes interface {
	// Begin is called when the watch begins, with who owns what at the revision before
	// its first event.
	Begin(t *ownership.Table, at int64)
	// Configured is called at a change of the configurations, with who owns what from then
	// on, whether or not that changes what the watch holds.
	Configured(t *ownership.Table, at int64)
	// Change is called before the first object is taken out or put in, at a revision.
	Change(gone, come []ownership.Span, at int64)
	// Changed is called after the last one, whose event it is, nil for none, with who
	// owns what from then on; after a change by which nothing is taken out or put in, too. It
	// returns false if the watch is to end.
	Changed(ctx context.Context, t *ownership.Table, last *clientv3.Event) bool
	// End is called when the watch has ended.
	End()
}

// unnoticed is for nobody who is told.
type unnoticed struct{}

func (unnoticed) Begin(*ownership.Table, int64)                                          {}
func (unnoticed) Configured(*ownership.Table, int64)                                     {}
func (unnoticed) Change(gone, come []ownership.Span, at int64)                           {}
func (unnoticed) Changed(context.Context, *ownership.Table, *clientv3.Event) (goOn bool) { return true }
func (unnoticed) End()                                                                   {}

// Client lists and watches what a group holds of one resource.
type Client struct {
	// KV and Watcher are what the client of upstream's storage has in place of its own.
	KV      clientv3.KV
	Watcher clientv3.Watcher

	arrivals *arrivals
}

// New makes a client of one resource. kv and watcher reach the datastore; the watches of
// a Watcher wait for each other, so it should be the resource's own. changes, unless it
// is nil, is told of the watches of the resource.
func (s *Source) New(r Resource, kvs clientv3.KV, watches clientv3.Watcher, changes Changes) *Client {
	if changes == nil {
		changes = unnoticed{}
	}
	a := &arrivals{}
	return &Client{
		KV:       &kv{KV: kvs, source: s, resource: r},
		Watcher:  &watcher{Watcher: watches, source: s, resource: r, arrivals: a, changes: changes},
		arrivals: a,
	}
}

// Stream makes a client of one resource that has what another group holds: its watches
// have the events of a tenant from the revision on at which the group became the owner,
// up to the one at which it ceases to be, and nothing of the moves. The group Rest has the
// system and the tenants that nobody owns.
func (s *Source) Stream(group string, r Resource, kvs clientv3.KV, watches clientv3.Watcher) *Client {
	o := s.Options
	o.Group = group
	of := NewSource(o)
	of.quiet = true
	return of.New(r, kvs, watches, nil)
}

// OwnRevision returns the true revision of an object that a change of ranges put in with
// another one; ok is false for all others. It is to be asked once for an object that
// comes from a watch, before the object is kept.
func (c *Client) OwnRevision(key string, revision int64) (own int64, ok bool) {
	return c.arrivals.take(key, revision)
}

// watcher makes watches of ranges of the watch of a resource.
type watcher struct {
	clientv3.Watcher
	source   *Source
	resource Resource
	arrivals *arrivals
	changes  Changes
}

// Watch implements clientv3.Watcher.
func (w *watcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpGet(key, opts...)
	if key != w.resource.Prefix || string(op.RangeBytes()) != clientv3.GetPrefixRangeEnd(key) || op.Rev() <= 0 {
		return w.Watcher.Watch(ctx, key, opts...)
	}
	m := &merge{
		watcher: w, in: make(chan response, buffered), out: make(chan clientv3.WatchResponse),
		done: op.Rev() - 1,
	}
	m.ctx, m.cancel = context.WithCancel(ctx)
	go m.run()
	return m.out
}
