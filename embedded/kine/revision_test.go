package kine

import (
	"context"
	"errors"
	"testing"

	kineserver "github.com/k3s-io/kine/pkg/server"
)

// behind is a backend whose memory of the revision lost against another write.
type behind struct {
	kineserver.Backend
	watch kineserver.WatchResult
}

func (behind) CurrentRevision(context.Context) (int64, error) { return 11, nil }

func (behind) Create(ctx context.Context, _ string, _ []byte, _ int64) (int64, error) {
	*ctx.Value(insertionKey{}).(*insertion) = insertion{revision: 12}
	return 11, nil
}

func (behind) Update(
	_ context.Context, _ string, _ []byte, revision, _ int64,
) (int64, *kineserver.KeyValue, bool, error) {
	return 14, nil, revision == 12, nil
}

func (behind) Delete(_ context.Context, _ string, revision int64) (int64, *kineserver.KeyValue, bool, error) {
	return 16, nil, revision == 14, nil
}

func (b behind) Watch(context.Context, int64) kineserver.WatchResult { return b.watch }

func TestCurrentRevisionKnowsOfAcknowledgedWrites(t *testing.T) {
	ctx := t.Context()
	r := &remembering{Backend: behind{}}
	want := func(revision int64, after string) {
		t.Helper()
		if got, err := r.CurrentRevision(ctx); err != nil || got != revision {
			t.Errorf("after %s: %d, %v, want %d", after, got, err, revision)
		}
	}
	want(11, "nothing")
	_, _ = r.Create(ctx, "/x", nil, 0)
	want(12, "a create")
	_, _, _, _ = r.Update(ctx, "/x", nil, 1, 0)
	want(12, "an update that was refused")
	_, _, _, _ = r.Update(ctx, "/x", nil, 12, 0)
	want(14, "an update")
	_, _, _, _ = r.Delete(ctx, "/x", 1)
	want(14, "a deletion that was refused")
	_, _, _, _ = r.Delete(ctx, "/x", 14)
	want(16, "a deletion")
}

// A watch that could not begin ends, and says why.
func TestWatchesThatCannotBegin(t *testing.T) {
	failure := errors.New("the database is away")
	failed := make(chan error, 1)
	failed <- failure
	r := &remembering{
		Backend: behind{watch: kineserver.WatchResult{Eventc: make(chan kineserver.EventBatch), Errorc: failed}},
	}
	watch := r.Watch(t.Context(), 11)
	for range watch.Eventc {
		t.Error("an event of nothing")
	}
	if err := <-watch.Errorc; !errors.Is(err, failure) {
		t.Error(err)
	}

	events := make(chan kineserver.EventBatch, 1)
	events <- kineserver.EventBatch{CurrentRev: 12}
	close(events)
	r = &remembering{Backend: behind{watch: kineserver.WatchResult{Eventc: events, Errorc: make(chan error, 1)}}}
	if batch := <-r.Watch(t.Context(), 11).Eventc; batch.CurrentRev != 12 {
		t.Errorf("%+v", batch)
	}
}
