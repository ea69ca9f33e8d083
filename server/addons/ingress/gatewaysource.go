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
	informers gatewayInformers
	cancel    context.CancelFunc
	running   sync.WaitGroup
}

func (c *Controller) newGatewaySource(ctx context.Context, api gatewayAPI) (*gatewaySource, error) {
	informers, err := newGatewayInformers(c.Objects, api, c.Pool)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &gatewaySource{api: api, informers: informers, cancel: cancel}
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
func (c *Controller) followKinds(ctx context.Context, kinds *kindsWatch) error {
	var source *gatewaySource
	defer func() { source.stop() }()
	for ctx.Err() == nil {
		api, changed := kinds.current()
		if source != nil && !maps.Equal(source.api, api) {
			source.stop()
			source = nil
		}
		if source == nil && api != nil {
			var err error
			if source, err = c.newGatewaySource(ctx, api); err != nil {
				return err
			}
			patient, end := context.WithTimeout(ctx, patience)
			if !source.await(patient) && ctx.Err() == nil {
				c.Log.Warn("The objects of the Gateway API cannot be listed; what Gateways had stays theirs, and " +
					"Ingresses do not wait for them")
			}
			end()
		}
		within, end := context.WithCancel(ctx)
		waits := source != nil && !source.loaded()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			defer end()
			kinds.await(within, api, changed)
		})
		using := source
		if waits {
			using = nil
			waiting.Go(func() {
				if source.await(within) {
					end()
				}
			})
		}
		err := c.run(within, using, waits)
		end()
		waiting.Wait()
		if err != nil {
			return err
		}
	}
	return nil
}

// await waits until other kinds are served than these, or ctx ends.
func (w *kindsWatch) await(ctx context.Context, these gatewayAPI, changed <-chan struct{}) {
	for same := true; same; {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		var now gatewayAPI
		now, changed = w.current()
		same = maps.Equal(these, now)
	}
}
