package kine

import (
	"context"
	"errors"
	"sync/atomic"

	kineserver "github.com/k3s-io/kine/pkg/server"
)

// remembering is a backend that knows the newest revision that it acknowledged.
//
// kine keeps the current revision in memory. Of two writes at once that both
// found it at 10, the one of 12 can lose against the one of 11: then it stays
// behind what was acknowledged until the next write, and so does the progress of
// watches. Consistent lists of the API server ask the database for the revision
// first and then wait until their cache has come so far.
type remembering struct {
	kineserver.Backend
	acked atomic.Int64
}

// acknowledged raises the revision that was acknowledged.
func (r *remembering) acknowledged(revision int64) {
	for {
		last := r.acked.Load()
		if revision <= last || r.acked.CompareAndSwap(last, revision) {
			return
		}
	}
}

// CurrentRevision implements server.Backend.
func (r *remembering) CurrentRevision(ctx context.Context) (int64, error) {
	acked := r.acked.Load()
	revision, err := r.Backend.CurrentRevision(ctx)
	return max(revision, acked), err
}

// Create implements server.Backend. See outspoken.
func (r *remembering) Create(ctx context.Context, key string, value []byte, lease int64) (int64, error) {
	var made insertion
	revision, err := r.Backend.Create(context.WithValue(ctx, insertionKey{}, &made), key, value, lease)
	if made.err != nil && !errors.Is(made.err, kineserver.ErrKeyExists) {
		return 0, made.err
	}
	if err != nil {
		return revision, err
	}
	r.acknowledged(made.revision)
	return made.revision, nil
}

// Update implements server.Backend.
func (r *remembering) Update(
	ctx context.Context, key string, value []byte, revision, lease int64,
) (int64, *kineserver.KeyValue, bool, error) {
	current, kv, updated, err := r.Backend.Update(ctx, key, value, revision, lease)
	if err == nil && updated {
		r.acknowledged(current)
	}
	return current, kv, updated, err
}

// Delete implements server.Backend.
func (r *remembering) Delete(
	ctx context.Context, key string, revision int64,
) (int64, *kineserver.KeyValue, bool, error) {
	current, kv, deleted, err := r.Backend.Delete(ctx, key, revision)
	if err == nil && deleted {
		r.acknowledged(current)
	}
	return current, kv, deleted, err
}

// Watch implements server.Backend. A watch of kine's that could not begin, as the
// database was away, would tell its client nothing: the events of some never end.
func (r *remembering) Watch(ctx context.Context, revision int64) kineserver.WatchResult {
	answer := r.Backend.Watch(ctx, revision)
	select {
	case err := <-answer.Errorc:
		none, why := make(chan kineserver.EventBatch), make(chan error, 1)
		close(none)
		why <- err
		answer.Eventc, answer.Errorc = none, why
	default:
	}
	return answer
}
