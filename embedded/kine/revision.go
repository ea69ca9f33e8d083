package kine

import (
	"context"
	"errors"

	kineserver "github.com/k3s-io/kine/pkg/server"
)

// kine keeps the current revision in memory. Of two writes at once that both
// found it at 10, the one of 12 can lose against the one of 11: then it stays
// behind what was acknowledged until the next write, and so do consistent lists
// of the API server, which ask for the revision first and then wait until their
// cache has come so far. So what was acknowledged is remembered here too.

// acknowledged raises the revision that was acknowledged.
func (o *orderly) acknowledged(revision int64) {
	for {
		last := o.acked.Load()
		if revision <= last || o.acked.CompareAndSwap(last, revision) {
			return
		}
	}
}

// known calls a read that answers with a revision, and raises that to what was
// acknowledged before. What it read was there then, or came later.
func (o *orderly) known(read func() (int64, error)) (int64, error) {
	acked := o.acked.Load()
	revision, err := read()
	return max(revision, acked), err
}

// CurrentRevision implements server.Backend.
func (o *orderly) CurrentRevision(ctx context.Context) (int64, error) {
	return o.known(func() (int64, error) { return o.Backend.CurrentRevision(ctx) })
}

// Get implements server.Backend.
func (o *orderly) Get(ctx context.Context, key string, revision int64, keysOnly bool) (int64, *kineserver.KeyValue, error) {
	var kv *kineserver.KeyValue
	current, err := o.known(func() (current int64, err error) {
		current, kv, err = o.Backend.Get(ctx, key, revision, keysOnly)
		return current, o.notFuture(err, revision)
	})
	return current, kv, err
}

// List implements server.Backend.
func (o *orderly) List(ctx context.Context, key, end string, limit, revision int64, keysOnly bool) (int64, []*kineserver.KeyValue, error) {
	var kvs []*kineserver.KeyValue
	current, err := o.known(func() (current int64, err error) {
		current, kvs, err = o.Backend.List(ctx, key, end, limit, revision, keysOnly)
		return current, o.notFuture(err, revision)
	})
	return current, kvs, err
}

// notFuture corrects an answer that found nothing at a revision: kine compares
// only then with the revision that it remembers.
func (o *orderly) notFuture(err error, revision int64) error {
	if errors.Is(err, kineserver.ErrFutureRev) && revision <= o.acked.Load() {
		return nil
	}
	return err
}

// Create implements server.Backend.
func (o *orderly) Create(ctx context.Context, key string, value []byte, lease int64) (int64, error) {
	revision, err := o.Backend.Create(ctx, key, value, lease)
	if err == nil {
		o.acknowledged(revision)
	}
	return revision, err
}

// Update implements server.Backend.
func (o *orderly) Update(ctx context.Context, key string, value []byte, revision, lease int64) (int64, *kineserver.KeyValue, bool, error) {
	current, kv, updated, err := o.Backend.Update(ctx, key, value, revision, lease)
	if err == nil && updated {
		o.acknowledged(current)
	}
	return current, kv, updated, err
}

// Delete implements server.Backend.
func (o *orderly) Delete(ctx context.Context, key string, revision int64) (int64, *kineserver.KeyValue, bool, error) {
	current, kv, deleted, err := o.Backend.Delete(ctx, key, revision)
	if err == nil && deleted {
		o.acknowledged(current)
	}
	return current, kv, deleted, err
}
