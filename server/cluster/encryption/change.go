package encryption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/cluster/replicated"
)

// passes through all Secrets are made until none is left to rewrite.
const passes = 10

// pace is how long things take.
type pace struct {
	// poll is how often API servers are asked which file they have read, and
	// startPoll how often that of a server that starts.
	poll, startPoll time.Duration
	// load bounds how long it may take the own one.
	load time.Duration
	// drain is how long a write may take that was prepared with the key that
	// the API server had before. A key is not dropped sooner.
	drain time.Duration
	// drainAmongServers is the same where the datastore may be electing: it
	// gives a write up after ten seconds.
	drainAmongServers time.Duration
	// nameAfter is the time after which the status names the missing servers, and
	// slowPoll how often their reports are read from then on.
	nameAfter, slowPoll time.Duration
	// retry is between two tries to reach the datastore.
	retry time.Duration
}

func usual() pace {
	return pace{
		poll: 250 * time.Millisecond, startPoll: 2 * time.Second, load: 2 * time.Minute,
		drain: 5 * time.Second, drainAmongServers: 12 * time.Second,
		nameAfter: 8 * time.Second, slowPoll: 2 * time.Second, retry: time.Second,
	}
}

// endTimeout bounds the end of a change.
const endTimeout = 5 * time.Second

// change does an action. It waits for as long as the datastore or a server
// does not answer.
func (c *Controller) change(ctx context.Context, action joinapi.EncryptionAction) error {
	l, err := c.open()
	if err != nil {
		return err
	}
	defer l.Close() //nolint:errcheck // every write was answered
	a := &act{action: action}
	if cl, ok := l.(*clusterStorage); ok {
		if err := c.retryTransient(ctx, func() error {
			end, err := cl.begin(ctx, action)
			if err == nil {
				a.end = end
			}
			return err
		}); err != nil {
			return err
		}
		defer a.end()
	}
	return c.retryTransient(ctx, func() error { return c.do(ctx, l, a) })
}

// retryTransient repeats a step that fails only because the datastore does not answer.
func (c *Controller) retryTransient(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || !transient(err) || ctx.Err() != nil {
			return err
		}
		c.progress.step("waiting for the datastore: " + err.Error())
		if component.Sleep(ctx, c.pace.retry) != nil {
			return err
		}
	}
}

// transient says whether an error ends when the datastore answers again.
func transient(err error) bool {
	if errors.Is(err, replicated.ErrNoMembers) || errors.Is(err, replicated.ErrChanged) {
		return true
	}
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code() == codes.Unavailable || e.Code() == codes.DeadlineExceeded
	}
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// act is an action on its way.
type act struct {
	action joinapi.EncryptionAction
	// from is the key that a rotation replaces, "" if it had begun before.
	from    string
	started bool
	// both is the configuration with which a rotation rewrote Secrets.
	both *configuration
	end  func()
}

// do is an action from whatever has been done of it.
func (c *Controller) do(ctx context.Context, l storage, a *act) error {
	for {
		s, err := l.current(ctx)
		if err != nil {
			return explain(err)
		}
		if err := allowed(s.stage(), a.action); err != nil {
			return err
		}
		if !a.started {
			a.started = true
			if s.stage() == joinapi.EncryptionEnabled {
				a.from = s.active()
			}
		}
		if err := c.wait(ctx, l, s); err != nil {
			return err
		}
		stage := s.stage()
		next, err := parse(c.o.Path, s.data)
		if err != nil {
			return err
		}
		switch {
		case a.action == joinapi.EncryptionEnable && stage == joinapi.EncryptionDisabled:
			err = next.enable()
		case a.action == joinapi.EncryptionDisable && stage == joinapi.EncryptionEnabled:
			next.disable()
		case a.action == joinapi.EncryptionRotate && stage == joinapi.EncryptionEnabled && s.active() == a.from:
			err = next.addKey()
		case a.action == joinapi.EncryptionRotate && stage == joinapi.EncryptionKeyAdded:
			next.promote()
		case a.action == joinapi.EncryptionRotate && stage == joinapi.EncryptionKeyPromoted:
			if err := c.rewriteAll(ctx, l, s.configuration); err != nil {
				return err
			}
			a.both = s.configuration
			next.dropOld()
		case a.action == joinapi.EncryptionRotate:
			return c.late(ctx, a.both)
		default:
			return c.rewriteAll(ctx, l, s.configuration)
		}
		if err != nil {
			return err
		}
		if err := l.replace(ctx, s, next); err != nil {
			return err
		}
		c.o.Log.Infof("secrets-encrypt %s: the stage is %s, the active key %q", a.action, next.stage(), next.active())
	}
}

// late rewrites what was stored with a key after it was dropped, by a write
// that was delayed for longer than any should be.
func (c *Controller) late(ctx context.Context, both *configuration) error {
	if both == nil {
		return nil
	}
	store, err := c.o.Store()
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // every write was answered
	return rewrite(ctx, store, both, func() {})
}

// wait returns when the API of every server works with s.
func (c *Controller) wait(ctx context.Context, l storage, s *state) error {
	if err := l.install(s); err != nil {
		return err
	}
	loaded := false // by the API server of this process
	behind := func(ctx context.Context) ([]string, error) { return l.behind(ctx, s) }
	_, err := replicated.Wait(ctx, behind, func(others []string, waited time.Duration) (time.Duration, bool, error) {
		if !loaded {
			have, err := c.o.Loaded()
			loaded = err == nil && have == s.hash()
			if !loaded && waited > c.pace.load {
				return 0, false, errors.Join(fmt.Errorf("the API server has not read %s again (it works with %q)",
					c.o.Path, have), err)
			}
		}
		if loaded && len(others) == 0 {
			return 0, true, nil
		}
		long := waited > c.pace.nameAfter
		c.progress.step(waiting(others, long))
		if long {
			return c.pace.slowPoll, false, nil
		}
		return c.pace.poll, false, nil
	})
	return err
}

// waiting says what for.
func waiting(others []string, long bool) string {
	if len(others) == 0 || !long {
		return "waiting for the API server to read the keys"
	}
	return fmt.Sprintf("waiting for %s to read the keys: goes on when it runs again, "+
		"or is no server any more (a4s etcd-member remove)", strings.Join(others, ", "))
}

// rewriteAll returns when every Secret is stored as cfg wants it.
func (c *Controller) rewriteAll(ctx context.Context, l storage, cfg *configuration) error {
	drain := c.pace.drain
	if several, err := l.others(); err != nil {
		return err
	} else if several && cfg.stage() == joinapi.EncryptionKeyPromoted {
		drain = c.pace.drainAmongServers
	}
	store, err := c.o.Store()
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // every write was acknowledged
	want := cfg.active()
	if want == "" {
		want = plain
	}
	for pass := range passes {
		stored, err := count(ctx, store)
		if err != nil {
			return err
		}
		total := 0
		for _, n := range stored {
			total += n
		}
		left := total - stored[want]
		if left == 0 && pass > 0 {
			return nil
		}
		c.progress.rewriting(total-left, total)
		if err := rewrite(ctx, store, cfg, c.progress.rewritten); err != nil {
			return err
		}
		// What was prepared before the API server read the file may only
		// arrive now; the next pass sees it.
		c.progress.step("waiting for writes that were under way")
		if err := component.Sleep(ctx, drain); err != nil {
			return err
		}
	}
	return errors.New("some Secrets are still written with another key")
}
