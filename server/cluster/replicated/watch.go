package replicated

import (
	"context"
	"errors"
	"time"

	"github.com/sirupsen/logrus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/component"
)

// ErrWatch means that a watch has ended: what it may have missed is to be read.
var ErrWatch = errors.New("the watch of the datastore has ended")

// Watch is a watch of a record.
type Watch struct {
	changes clientv3.WatchChan
	latest  func(clientv3.WatchResponse) (*Record, error)
}

// Watch begins a watch of what is written after the revision. It ends with ctx.
func (d *Document[R]) Watch(ctx context.Context, store Store, revision int64) *Watch {
	return &Watch{
		changes: store.Watch(ctx, d.Key, clientv3.WithRev(revision+1)),
		latest: func(resp clientv3.WatchResponse) (*Record, error) {
			if len(resp.Events) == 0 {
				return nil, nil
			}
			last := resp.Events[len(resp.Events)-1]
			if last.Type != clientv3.EventTypePut {
				return nil, ErrNone
			}
			return d.decode(last.Kv)
		},
	}
}

// Next returns the next record, or nil if there is none within the time; 0 is no
// limit. It fails with ErrNone when the record is removed, and with ErrWatch
// when there is nothing more to come.
func (w *Watch) Next(ctx context.Context, within time.Duration) (*Record, error) {
	var late <-chan time.Time
	if within > 0 {
		late = time.After(within)
	}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late:
			return nil, nil
		case resp, ok := <-w.changes:
			if !ok || resp.Err() != nil {
				return nil, errors.Join(ErrWatch, resp.Err())
			}
			if r, err := w.latest(resp); r != nil || err != nil {
				return r, err
			}
		}
	}
}

// Follow calls once again after each failure, until it succeeds or ctx ends. It
// logs an error with the text, unless the last one was the same.
func Follow(
	ctx context.Context, log *logrus.Entry, text string, retry time.Duration, once func(ctx context.Context) error,
) {
	for last := ""; ; {
		err := once(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if now := err.Error(); now != last {
			log.WithError(err).Warn(text)
			last = now
		}
		if component.Sleep(ctx, retry) != nil {
			return
		}
	}
}
