package kine

import (
	"context"
	"time"

	kineserver "github.com/k3s-io/kine/pkg/server"
)

// onward is the backend of NATS, whose watches never go back. kine begins with all
// changes that there are whenever it begins to watch NATS: with its first watch, and
// again after an error. Its server ends the process over a change that comes twice.
type onward struct{ kineserver.Backend }

// Watch implements server.Backend.
func (o onward) Watch(ctx context.Context, revision int64) kineserver.WatchResult {
	answer := o.Backend.Watch(ctx, revision)
	inner, out := answer.Eventc, make(chan kineserver.EventBatch)
	go func() {
		defer close(out)
		var last int64
		for batch := range inner {
			batch = batch.After(last)
			last = max(last, batch.CurrentRev)
			select {
			case out <- batch:
			case <-ctx.Done():
				return // kine does not wait for those who have left
			}
		}
	}()
	answer.Eventc = out
	return answer
}

// quiet is after how long without a change those of before are through.
const quiet = time.Second

// settle waits until the changes of before are through, which come as fast as NATS
// has them: watches that are too slow for that are dropped, without a word.
func (o onward) settle(ctx context.Context) error {
	current, err := o.CurrentRevision(ctx)
	if err != nil {
		return err
	}
	for {
		through, err := o.settled(ctx, current)
		if through || err != nil {
			return err
		}
	}
}

func (o onward) settled(ctx context.Context, current int64) (bool, error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	watch := o.Backend.Watch(ctx, 0)
	<-watch.Eventc // says where it begins
	for {
		select {
		case err := <-watch.Errorc:
			return false, err
		case batch, more := <-watch.Eventc:
			if !more || batch.CurrentRev >= current {
				return more, ctx.Err()
			}
		case <-time.After(quiet):
			return true, nil // the last change is none of a key
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
