package ranged

import (
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/space"
)

const (
	// atOnce is how many objects are put in or taken out in a millisecond: the buffers
	// of who watches the cache would overflow with more.
	atOnce = 20
	// pageSize is how many objects of a moving tenant are read at a time.
	pageSize = 500
)

// change is an event that changes the ranges.
type change struct {
	event     *clientv3.Event
	role      role   // configs or namespaces
	namespace string // of the system
}

// apply changes over at the revision of the change.
func (m *merge) apply(c *change) bool {
	at := c.event.Kv.ModRevision
	old := m.view
	v, err := m.changed(c)
	if err != nil {
		return m.end()
	}
	moved := false
	if c.role == configs {
		m.changes.Configured(v.table, at)
		gone, come := ownership.Moves(old.table, v.table, m.source.Group)
		moved = len(gone)+len(come) > 0
		if moved && !m.source.quiet {
			m.changes.Change(gone, come, at)
			if !m.takeOut(gone, at) || !m.putIn(come, at) {
				return m.end()
			}
		}
		last := m.last
		m.last = nil
		if !m.changes.Changed(m.ctx, v.table, last) {
			return false
		}
	}
	m.view, m.done = v, at
	if c.role == configs {
		m.source.progress.met(m, v, at, moved)
	}
	m.reopen(at)
	return m.send(clientv3.WatchResponse{Header: m.header(at)})
}

// changed is the view after a change.
func (m *merge) changed(c *change) (*view, error) {
	v := *m.view
	if c.role == namespaces {
		if len(v.namespaces) >= maxNamespaces {
			there, err := m.source.namespacesAt(m.ctx, c.event.Kv.ModRevision)
			if err != nil {
				return nil, err
			}
			v.namespaces = there
		}
		if !slices.Contains(v.namespaces, c.namespace) {
			v.namespaces = append(slices.Clone(v.namespaces), c.namespace)
		}
		return &v, nil
	}
	v.configs = maps.Clone(v.configs)
	key := string(c.event.Kv.Key)
	if c.event.Type == clientv3.EventTypeDelete {
		delete(v.configs, key)
	} else {
		config, err := m.source.config(m.ctx, c.event.Kv)
		if err != nil {
			return nil, err
		}
		v.configs[key] = config
	}
	v.table = tableOf(v.configs)
	return &v, nil
}

// takeOut sends a deletion of every object of departing tenants.
func (m *merge) takeOut(gone []ownership.Span, at int64) bool {
	return m.each(gone, at, func(kv *mvccpb.KeyValue) *clientv3.Event {
		return &clientv3.Event{
			Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: kv.Key, ModRevision: at}, PrevKv: kv,
		}
	})
}

// putIn sends every object of arriving tenants.
func (m *merge) putIn(come []ownership.Span, at int64) bool {
	return m.each(come, at, func(kv *mvccpb.KeyValue) *clientv3.Event {
		m.arrivals.add(string(kv.Key), at, kv.ModRevision)
		return &clientv3.Event{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{
			Key: kv.Key, Value: kv.Value, CreateRevision: at, ModRevision: at, Version: 1, Lease: kv.Lease,
		}}
	})
}

// each sends an event for every object of some tenants as of a revision.
func (m *merge) each(spans []ownership.Span, at int64, event func(*mvccpb.KeyValue) *clientv3.Event) bool {
	for _, r := range ownership.RangesOf(spans, m.resource.Prefix) {
		for from, more := r.From, true; more; {
			got, err := m.source.Client.Get(m.ctx, from, clientv3.WithRange(r.To), clientv3.WithRev(at),
				clientv3.WithLimit(pageSize))
			if err != nil {
				return false
			}
			var events []*clientv3.Event
			for _, kv := range got.Kvs {
				rest := strings.TrimPrefix(string(kv.Key), m.resource.Prefix)
				if ownership.TenantOf(m.resource.Layout, rest) != space.System {
					events = append(events, event(kv))
				}
			}
			if !m.pace(events) {
				return false
			}
			if more = got.More && len(got.Kvs) > 0; more {
				from = next(got.Kvs)
			}
		}
	}
	return true
}

// pace sends events slowly. The watch has not reached their revision before the last.
func (m *merge) pace(events []*clientv3.Event) bool {
	for some := range slices.Chunk(events, atOnce) {
		if !m.send(clientv3.WatchResponse{Header: m.header(m.done), Events: some}) {
			return false
		}
		m.last = some[len(some)-1]
		select {
		case <-m.ctx.Done():
			return false
		case <-time.After(time.Millisecond):
		}
	}
	return true
}

// reopen watches the ranges of the new view from the next revision on. Watches of ranges
// that stay go on.
func (m *merge) reopen(at int64) {
	want := map[ownership.Range]bool{}
	for _, r := range m.source.ranges(m.view, m.resource) {
		want[r] = true
	}
	for p := range m.watches {
		switch {
		case p.role != objects:
		case want[p.within]:
			delete(want, p.within)
		default:
			m.shut(p)
		}
	}
	for r := range want {
		m.open(objects, r, at+1)
	}
}
