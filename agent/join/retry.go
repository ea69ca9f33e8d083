package joining

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/a4s-io/a4s/internal/problem"
)

const (
	minBackoff = time.Second
	maxBackoff = 15 * time.Second
	// logEvery is how often a wait for the same thing is logged.
	logEvery = 10
)

// errRetryNow asks for another attempt without a pause.
var errRetryNow = errors.New("try again with another credential")

// retry calls attempt until it succeeds, fails for good or ctx ends.
func (j *joiner) retry(ctx context.Context, attempt func(context.Context) error) error {
	backoff := minBackoff
	last := ""
	for n := 0; ; n++ {
		err := attempt(ctx)
		var in *problem.Input
		var pre *problem.Precondition
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("joining %s: %w", j.url, context.Cause(ctx))
		case errors.As(err, &in), errors.As(err, &pre):
			return err
		case errors.Is(err, errRetryNow):
			continue
		}
		if reason := describe(err); reason != last || n%logEvery == 0 {
			j.Log.WithField("server", j.url.String()).Infof("waiting for the server to let this node join: %s", reason)
			last = reason
		}
		// Jitter keeps the nodes of a cluster from coming back in step.
		wait := backoff/2 + rand.N(backoff)
		var answer *answerError
		if errors.As(err, &answer) {
			wait = max(wait, min(answer.retryAfter, maxBackoff))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("joining %s: %w; last: %w", j.url, context.Cause(ctx), err)
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// describe leaves out the URL, which a log line has already.
func describe(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	return err.Error()
}
