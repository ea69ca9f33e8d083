package balance

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
)

const (
	// lookEvery is how often the groups are looked at, and restFor how long a move is left
	// to have its effect, whoever made it.
	lookEvery = time.Minute
	restFor   = 10 * time.Minute
)

// Automatic applies what Suggest proposes. It runs on one server only.
func Automatic(s *Store, log *logrus.Entry) component.Component {
	return component.Component{Name: "auto-partition", Run: func(ctx context.Context, ready func()) error {
		ready()
		for ctx.Err() == nil {
			if err := s.balance(ctx, time.Now(), log); err != nil && ctx.Err() == nil {
				log.WithError(err).Warn("Service groups are not balanced now; this is tried again")
			}
			if err := component.Sleep(ctx, lookEvery); err != nil {
				return nil //nolint:nilerr // it is to end
			}
		}
		return nil
	}}
}

// balance applies one proposal, unless one was applied a short time ago.
func (s *Store) balance(ctx context.Context, now time.Time, log *logrus.Entry) error {
	state, err := s.Read(ctx)
	if err != nil {
		return err
	}
	p := state.Suggest()
	if p == nil || now.Sub(moved(state.Configs)) < restFor {
		return nil
	}
	if err := s.Apply(ctx, p); err != nil {
		return err
	}
	log.Infof("Moved %d tenants with %s from service group %s to %s", len(p.Tenants), p.Load, p.From, p.To)
	return nil
}
