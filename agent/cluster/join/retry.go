package join

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
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
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("joining: %w", context.Cause(ctx))
		case isFinal(err):
			return err
		}
		if reason := err.Error(); reason != last || n%logEvery == 0 {
			j.Log.Infof("waiting for the server to let this node join: %s", reason)
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
			return fmt.Errorf("joining: %w; last: %w", context.Cause(ctx), err)
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// isFinal reports whether only a person can remove the cause of the error.
func isFinal(err error) bool {
	var in *problem.Input
	var pre *problem.Precondition
	return errors.As(err, &in) || errors.As(err, &pre)
}

// serverError is why one server did not let the node join yet.
type serverError struct {
	server string
	err    error
}

func (e *serverError) Error() string { return e.server + ": " + describe(e.err) }
func (e *serverError) Unwrap() error { return e.err }

// attemptError is why none did.
type attemptError struct{ servers []error }

func (e *attemptError) Error() string {
	all := make([]string, 0, len(e.servers))
	for _, err := range e.servers {
		all = append(all, err.Error())
	}
	return strings.Join(all, "; ")
}

func (e *attemptError) Unwrap() []error { return e.servers }

// describe leaves out the URL, which is told beside it.
func describe(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	return err.Error()
}
