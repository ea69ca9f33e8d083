package encryption

import (
	"context"
	"errors"

	"github.com/a4s-io/a4s/server/cluster/replicated"
)

// follow keeps the file of this server as the datastore has it, and reports to
// the other servers when its API works with the file.
func (c *Controller) follow(ctx context.Context) error {
	l, err := c.openCluster()
	if err != nil {
		return err
	}
	defer l.Close() //nolint:errcheck // every write was answered
	s, err := l.current(ctx)
	if errors.Is(err, replicated.ErrNone) {
		s, err = c.publish(ctx, l, 0) // an administrator has removed it
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watch
	watch := l.Watch(ctx, l.store, s.revision)
	if err := l.install(s); err != nil {
		return err
	}
	poll := c.pace.startPoll // 0 when there is nothing to report
	for {
		r, err := watch.Next(ctx, poll)
		if err != nil {
			return err
		}
		if r != nil {
			if s, err = l.content(r); err != nil {
				return err
			}
			if err := l.install(s); err != nil {
				return err
			}
			poll = c.pace.poll
			continue
		}
		if have, err := c.o.Loaded(); err != nil || have != s.hash() {
			continue
		}
		if err := l.report(ctx, s); err != nil {
			return err
		}
		poll = 0
	}
}
