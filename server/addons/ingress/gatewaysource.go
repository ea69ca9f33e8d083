package ingress

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/component"
)

// patience is how long a start waits for the objects of the Gateway API. A webhook of a CRD can keep them from being
// listed; Ingresses go on without them then.
const patience = 10 * time.Second

// gatewaySource watches the objects of the Gateway API while the same kinds are served.
type gatewaySource struct {
	api       gatewayAPI
	turn      int // of the kinds
	informers gatewayInformers
	cancel    context.CancelFunc
	running   sync.WaitGroup
}

func newGatewaySource(ctx context.Context, o Options, of kinds) (*gatewaySource, error) {
	informers, err := newGatewayInformers(o.Objects, of.api, o.Pool)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &gatewaySource{api: of.api, turn: of.turn, informers: informers, cancel: cancel}
	for _, informer := range informers {
		s.running.Go(func() { informer.RunWithContext(ctx) })
	}
	return s, nil
}

// stop ends it. s may be nil.
func (s *gatewaySource) stop() {
	if s != nil {
		s.cancel()
		s.running.Wait()
	}
}

// loaded reports whether all that is there was seen.
func (s *gatewaySource) loaded() bool {
	waits := func(one cache.SharedIndexInformer) bool { return !one.HasSynced() }
	return !slices.ContainsFunc(slices.Collect(maps.Values(s.informers)), waits)
}

// await waits until all that is there was seen, or ctx ends.
func (s *gatewaySource) await(ctx context.Context) bool {
	for !s.loaded() {
		if component.Sleep(ctx, minGap) != nil {
			return false
		}
	}
	return true
}

// followKinds runs the controller, and begins anew when other kinds are served, or their objects could be listed at
// last.
func (c *Controller) followKinds(ctx context.Context, watch *kindsWatch) error {
	var source *gatewaySource
	defer func() { source.stop() }()
	for ctx.Err() == nil {
		now := watch.current()
		if source != nil && source.turn != now.turn {
			source.stop()
			source = nil
			c.forgetClass() // it went with its CRD, and is made again
		}
		if source == nil && now.api != nil {
			var err error
			if source, err = newGatewaySource(ctx, c.Options, now); err != nil {
				return err
			}
			patient, end := context.WithTimeout(ctx, patience)
			if !source.await(patient) && ctx.Err() == nil {
				c.Log.Warn("The objects of the Gateway API cannot be listed; what Gateways had stays theirs, and " +
					"Ingresses do not wait for them")
			}
			end()
		}
		if err := c.runUntil(ctx, source, func(ctx context.Context) { watch.await(ctx, now) }); err != nil {
			return err
		}
	}
	return nil
}

// forgetClass has the leader make the class again.
func (c *Controller) forgetClass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader != nil {
		c.leader.classMade.Store(false)
	}
}

// runUntil runs the controller until changed returns, or until the source, which may be nil, is loaded if it was not.
func (c *Controller) runUntil(ctx context.Context, source *gatewaySource, changed func(context.Context)) error {
	ctx, end := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer end()
	waiting.Go(func() {
		defer end()
		changed(ctx)
	})
	if source == nil || source.loaded() {
		return c.run(ctx, source, false)
	}
	waiting.Go(func() {
		if source.await(ctx) {
			end()
		}
	})
	return c.run(ctx, nil, true)
}
