package balance

import (
	"context"
	"maps"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

const (
	// lookEvery is how often the groups are looked at. What was interrupted is taken up
	// when it was the same twice, so that nobody is disturbed who stores it now.
	lookEvery = time.Minute
	// restFor is how long configurations are left as they are after a change, whoever made
	// it. A server that begins to lead does not know when that was, and waits as long.
	restFor = 10 * time.Minute
)

// Automatic applies what Suggest proposes. It runs on one server only.
func Automatic(s *Store, log *logrus.Entry) component.Component {
	return component.Component{Name: "auto-groups", Run: func(ctx context.Context, ready func()) error {
		ready()
		a := automatic{read: s.Read, apply: s.Apply, log: log}
		for ctx.Err() == nil {
			if err := a.look(ctx, time.Now()); err != nil && ctx.Err() == nil {
				log.WithError(err).Warn("Service groups are not balanced now; this is tried again")
			}
			if err := component.Sleep(ctx, lookEvery); err != nil {
				return nil //nolint:nilerr // it is to end
			}
		}
		return nil
	}}
}

// automatic is what a server that leads knows of the groups.
type automatic struct {
	read  func(context.Context) (*State, error)
	apply func(context.Context, *Proposal) error
	log   *logrus.Entry

	// versions are those of the configurations when they were looked at last, and since is
	// when they were seen first, by a clock that nobody sets. said is set when it was told
	// why nothing is moved.
	versions map[string]string
	since    time.Time
	said     bool
}

// look goes on with what was interrupted, or applies one proposal, unless something was
// changed a short time ago.
func (a *automatic) look(ctx context.Context, now time.Time) error {
	state, err := a.read(ctx)
	if err != nil {
		return err
	}
	versions := map[string]string{}
	for i := range state.Configs {
		versions[state.Configs[i].Name] = state.Configs[i].ResourceVersion
	}
	changed := a.versions == nil || !maps.Equal(versions, a.versions)
	if changed {
		a.versions, a.since, a.said = versions, now, false
	}
	p := state.Suggest()
	switch {
	case p == nil:
		if pairs := overlaps(state.Configs); len(pairs) > 0 {
			a.say("The ranges of service groups overlap, so no tenant is moved between them: %s; "+
				"set them with kubectl edit datapartitionconfigs", pairs)
		}
		return nil
	case p.Interrupted:
		if changed {
			return nil
		}
		a.log.Infof("A move of tenants from service group %s to %s was interrupted; it is taken up again",
			p.From, p.To)
	case now.Sub(a.since) < restFor:
		a.say("Service groups %s and %s are not balanced; what was changed is left alone for %s",
			p.From, p.To, restFor)
		return nil
	}
	if err := a.apply(ctx, p); err != nil {
		return err
	}
	if !p.Interrupted {
		a.log.Infof("Moved %d tenants with %s from service group %s to %s", len(p.Tenants), p.Load, p.From, p.To)
	}
	return nil
}

// say tells once, until a configuration changes, why nothing is moved.
func (a *automatic) say(format string, args ...any) {
	if !a.said {
		a.log.Infof(format, args...)
	}
	a.said = true
}

// overlaps are pairs of groups whose ranges have names in common.
func overlaps(configs []partitionapi.DataPartitionConfig) [][2]string {
	var rules []ownership.Config
	for i := range configs {
		rules = append(rules, ownership.NewConfig(&configs[i], configs[i].CreationTimestamp.Unix()))
	}
	return ownership.Overlaps(rules)
}
